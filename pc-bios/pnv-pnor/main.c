/*
 * pnv-pnor: put catalogs of in-memory collection counters into a PNOR image
 *
 *   pnv-pnor [--base IMG] --catalog ID=FILE... -o IMG
 *   pnv-pnor --list IMG
 *
 * Runs on the build machine and needs nothing of QEMU.  All that is known
 * about the formats, and where it comes from, is in pnor.c and catalog.c;
 * here are only files, the device-tree compiler and the command line.
 *
 * Copyright (c) qemu-pmu developers
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <glib.h>
#include "pnor.h"
#include "catalog.h"

#define READ_CHUNK  0x10000

static const char help[] =
"Usage: pnv-pnor [--base IMG] --catalog ID=FILE... -o IMG\n"
"       pnv-pnor --list IMG\n"
"\n"
"Put catalogs of in-memory collection counters (IMC) into a PNOR image, the\n"
"flash of QEMU's powernv machines.\n"
"\n"
"  --base IMG          image to add them to (default: a new one)\n"
"  --catalog ID=FILE   a dtb, or a dts that dtc compiles, for processors with\n"
"                      this version (PVR) after clearing the bits 0xf0ff:\n"
"                      0x4e0200 for powernv9, 0x800200 for powernv10; it\n"
"                      replaces the one that the base image has for them\n"
"  -o, --output IMG    image to write\n"
"  --list IMG          show what an image has; status 1 if it is damaged\n"
"  -h, --help          show this\n";

/* No file is larger than an image may be; pipes are welcome. */
static bool read_fd(int fd, const char *path, GByteArray *data, GError **errp)
{
    for (;;) {
        guint old = data->len;
        ssize_t n;

        g_byte_array_set_size(data, old + READ_CHUNK);
        n = read(fd, data->data + old, READ_CHUNK);
        if (n < 0 && errno == EINTR) {
            n = 0;
        } else if (n < 0) {
            pnor_fail(errp, "cannot read %s: %s", path, g_strerror(errno));
            return false;
        } else if (n == 0) {
            g_byte_array_set_size(data, old);
            return true;
        }
        g_byte_array_set_size(data, old + n);
        if (data->len >= PNOR_IMAGE_LIMIT) {
            pnor_fail(errp, "%s has 256 MiB or more: take a smaller file",
                      path);
            return false;
        }
    }
}

static GByteArray *read_file(const char *path, GError **errp)
{
    g_autoptr(GByteArray) data = g_byte_array_new();
    bool done;
    int fd = open(path, O_RDONLY | O_CLOEXEC);

    if (fd < 0) {
        pnor_fail(errp, "cannot open %s: %s", path, g_strerror(errno));
        return NULL;
    }
    done = read_fd(fd, path, data, errp);
    close(fd);
    if (!done) {
        return NULL;
    }
    if (!data->len) {
        pnor_fail(errp, "%s is empty: take another file", path);
        return NULL;
    }
    return g_steal_pointer(&data);
}

/*
 * dtc itself says, on stderr, what it does not like. Nodes of PMUs have a base
 * in reg, and names without an address: Linux expects "core", "thread".
 */
static GByteArray *compile(const char *path, GError **errp)
{
    const char *argv[] = {
        "dtc", "-I", "dts", "-O", "dtb", "-W", "no-unit_address_vs_reg",
        "--", path, NULL
    };
    g_autoptr(GByteArray) dtb = g_byte_array_new();
    g_autoptr(GError) err = NULL;
    GPid pid;
    int status;
    int fd;
    bool done;
    pid_t ended;

    if (!g_spawn_async_with_pipes(NULL, (char **)argv, NULL,
                                  G_SPAWN_SEARCH_PATH |
                                  G_SPAWN_DO_NOT_REAP_CHILD,
                                  NULL, NULL, &pid, NULL, &fd, NULL, &err)) {
        if (g_error_matches(err, G_SPAWN_ERROR, G_SPAWN_ERROR_NOENT)) {
            pnor_fail(errp, "%s is no dtb, and there is no dtc to compile "
                      "it: install the package device-tree-compiler", path);
        } else {
            pnor_fail(errp, "cannot run dtc: %s", err->message);
        }
        return NULL;
    }

    done = read_fd(fd, "dtc's output", dtb, errp);
    close(fd);
    do {
        ended = waitpid(pid, &status, 0);
    } while (ended < 0 && errno == EINTR);
    g_spawn_close_pid(pid);
    if (!done) {
        return NULL;
    }
    if (ended < 0 || !WIFEXITED(status) || WEXITSTATUS(status) || !dtb->len) {
        pnor_fail(errp, "dtc cannot compile %s: correct what it says above",
                  path);
        return NULL;
    }
    return g_steal_pointer(&dtb);
}

/* Read the argument ID=FILE, and compress the catalog. */
static PnorCatalog *read_catalog(const char *arg, GError **errp)
{
    static const uint8_t dtb_magic[] = { 0xd0, 0x0d, 0xfe, 0xed };
    const char *equals = strchr(arg, '=');
    const char *path = equals ? equals + 1 : "";
    g_autofree char *id_text = NULL;
    g_autoptr(GByteArray) dtb = NULL;
    g_autoptr(GByteArray) blob = NULL;
    uint32_t id;

    if (!*path) {
        pnor_fail(errp, "'%s' is not ID=FILE: write for example "
                  "0x4e0200=catalog.dts", arg);
        return NULL;
    }
    id_text = g_strndup(arg, equals - arg);
    if (!pnor_parse_id(id_text, &id, errp)) {
        return NULL;
    }

    dtb = read_file(path, errp);
    if (dtb && (dtb->len < sizeof(dtb_magic) ||
                memcmp(dtb->data, dtb_magic, sizeof(dtb_magic)))) {
        g_byte_array_unref(dtb);
        dtb = compile(path, errp);
    }
    if (!dtb) {
        return NULL;
    }
    if (!catalog_check(dtb->data, dtb->len, NULL, errp)) {
        g_prefix_error(errp, "%s: ", path);
        return NULL;
    }
    blob = catalog_compress(dtb->data, dtb->len, errp);
    return blob ? pnor_catalog_new(id, blob->data, blob->len) : NULL;
}

static bool write_fd(int fd, const GByteArray *data)
{
    guint done = 0;

    while (done < data->len) {
        ssize_t n = write(fd, data->data + done, data->len - done);

        if (n >= 0) {
            done += n;
        } else if (errno != EINTR) {
            return false;
        }
    }
    return true;
}

/* The file has all of the new content, or all of what it had before. */
static bool write_file(const char *path, const GByteArray *data,
                       GError **errp)
{
    g_autofree char *target = realpath(path, NULL);
    g_autofree char *temp = NULL;
    mode_t mode = 0666;
    struct stat st;
    bool done;
    int fd;

    if (target) {
        /* Renaming would put a file in the place of a device. */
        if (stat(target, &st) || !S_ISREG(st.st_mode)) {
            pnor_fail(errp, "%s is not a regular file: choose another output",
                      path);
            return false;
        }
        mode = st.st_mode & 0777;
    } else {
        target = g_strdup(path);
    }

    temp = g_strdup_printf("%s.XXXXXX", target);
    fd = g_mkstemp_full(temp, O_WRONLY | O_CLOEXEC, mode);
    if (fd < 0) {
        pnor_fail(errp, "cannot create a file beside %s: %s", path,
                  g_strerror(errno));
        return false;
    }
    done = write_fd(fd, data);
    done = !close(fd) && done;
    if (!done || rename(temp, target)) {
        pnor_fail(errp, "cannot write %s: %s", path, g_strerror(errno));
        unlink(temp);
        return false;
    }
    return true;
}

static bool list(const char *path, GError **errp)
{
    g_autoptr(GString) out = g_string_new(NULL);
    g_autoptr(GByteArray) image = read_file(path, errp);
    bool intact;

    if (!image) {
        return false;
    }
    intact = pnor_list(image->data, image->len, out, errp);
    if (!intact) {
        g_prefix_error(errp, "%s: ", path);
    }
    fputs(out->str, stdout);
    if (fflush(stdout) && intact) {
        pnor_fail(errp, "cannot write the list: %s", g_strerror(errno));
        intact = false;
    }
    return intact;
}

static bool build(const char *base_path, char **args, const char *path,
                  GError **errp)
{
    g_autoptr(GPtrArray) catalogs = pnor_catalogs_new();
    g_autoptr(GByteArray) base = NULL;
    g_autoptr(GByteArray) image = NULL;

    for (; *args; args++) {
        PnorCatalog *catalog = read_catalog(*args, errp);
        guint i;

        if (!catalog) {
            return false;
        }
        g_ptr_array_add(catalogs, catalog);
        for (i = 0; i < catalogs->len - 1; i++) {
            const PnorCatalog *other = g_ptr_array_index(catalogs, i);

            if (other->id == catalog->id) {
                pnor_fail(errp, "--catalog is given twice for 0x%x: "
                          "leave one out", catalog->id);
                return false;
            }
        }
    }
    if (base_path) {
        base = read_file(base_path, errp);
        if (!base) {
            return false;
        }
    }
    image = pnor_image_update(base ? base->data : NULL, base ? base->len : 0,
                              catalogs, errp);
    if (!image) {
        if (base) {
            g_prefix_error(errp, "%s: ", base_path);
        }
        return false;
    }
    return write_file(path, image, errp);
}

static bool run(int argc, char **argv, GError **errp)
{
    g_autofree char *base = NULL;
    g_autofree char *output = NULL;
    g_autofree char *listed = NULL;
    g_auto(GStrv) catalogs = NULL;
    g_autoptr(GOptionContext) context = g_option_context_new(NULL);
    gboolean wants_help = FALSE;
    GOptionEntry entries[] = {
        { .long_name = "base",
          .arg = G_OPTION_ARG_FILENAME, .arg_data = &base },
        { .long_name = "catalog",
          .arg = G_OPTION_ARG_FILENAME_ARRAY, .arg_data = &catalogs },
        { .long_name = "output", .short_name = 'o',
          .arg = G_OPTION_ARG_FILENAME, .arg_data = &output },
        { .long_name = "list",
          .arg = G_OPTION_ARG_FILENAME, .arg_data = &listed },
        { .long_name = "help", .short_name = 'h',
          .arg = G_OPTION_ARG_NONE, .arg_data = &wants_help },
        { .long_name = NULL }
    };

    g_option_context_add_main_entries(context, entries, NULL);
    g_option_context_set_help_enabled(context, FALSE);
    if (!g_option_context_parse(context, &argc, &argv, errp)) {
        return false;
    }
    if (wants_help) {
        fputs(help, stdout);
        return true;
    }
    if (argc > 1) {
        pnor_fail(errp, "unexpected argument '%s': see --help", argv[1]);
        return false;
    }
    if (listed) {
        if (base || catalogs || output) {
            pnor_fail(errp, "--list goes with no other option: see --help");
            return false;
        }
        return list(listed, errp);
    }
    if (!catalogs || !output) {
        pnor_fail(errp, "%s is missing: see --help",
                  catalogs ? "-o IMG" : "--catalog ID=FILE");
        return false;
    }
    return build(base, catalogs, output, errp);
}

int main(int argc, char **argv)
{
    g_autoptr(GError) err = NULL;

    /* A write that exceeds the limit of file sizes is to be cleaned up. */
    signal(SIGXFSZ, SIG_IGN);
    /* If our parent ignores it, dtc's status would be lost. */
    signal(SIGCHLD, SIG_DFL);
    if (!run(argc, argv, &err)) {
        fprintf(stderr, "pnv-pnor: %s\n", err->message);
        return EXIT_FAILURE;
    }
    return EXIT_SUCCESS;
}
