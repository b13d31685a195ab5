// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * nest_imc: read a nest counter of POWER9 or POWER10 without perf
 *
 * The nest is the part of a chip around the cores: bus, memory controllers, host bridges. Microcode
 * *posts* what its units count every millisecond: it adds the counts to 64-bit big-endian words in
 * HOMER, memory that chip and host share. The device tree says which word counts what:
 *
 *   UNIT@BASE               compatible "ibm,imc-counters", type 0x10 (nest)
 *     chip-id, base-addr    of each chip: its number, and the physical address of its HOMER
 *     offset, size          the counter area in HOMER, the same for all units and chips
 *     cb_offset             the control block in the area
 *     reg                   <BASE SIZE>: the words of the unit in the area
 *     events                phandle of a node that has the events as children
 *     events-prefix         goes before the name of each event
 *     scale, unit           what one count stands for; an event can have its own
 *   event@N
 *     event-name, reg       name without prefix; <N 8>: the word, counted from BASE
 *
 * The driver reads the word of one event on all chips at regular intervals, and prints by how much
 * it grew. While the driver is loaded, the microcode runs. Linux pauses the microcode at boot and
 * after the last perf event of a chip, with OPAL calls that modules cannot make. So this driver
 * stores commands in the control block, as OPAL does. perf is not told: unloading pauses what
 * loading has resumed, even if perf counts at that moment. What perf has paused, the next look
 * of this driver resumes, up to interval_ms later.
 *
 * Copyright (c) qemu-pmu developers
 */

#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/delay.h>
#include <linux/io.h>
#include <linux/module.h>
#include <linux/of.h>
#include <linux/workqueue.h>
#include <asm/imc-pmu.h>

#define MAX_CHIPS		16

/* The control block */
#define CB_STATUS		0x00
#define   STATUS_PAUSED		2
#define CB_COMMAND		IMC_CNTL_BLK_CMD_OFFSET
#define   COMMAND_RESUME	1
#define   COMMAND_PAUSE		2

/* Words are posted in groups, whose layout the microcode fixes and no property describes. */
#define GROUP_SIZE		0x110
#define GROUP_HEADER		0x000	/* number of posts that have begun */
#define GROUP_TRAILER		0x108	/* number of posts that are complete */

static char *event = "";
module_param(event, charp, 0444);
MODULE_PARM_DESC(event, "what to read, as perf writes it: nest_phb0_imc/PM_PHB0_CYC/");

static unsigned int interval_ms = 1000;
module_param(interval_ms, uint, 0444);
MODULE_PARM_DESC(interval_ms, "time between two reads");

static u32 offset;			/* of the word in the area */
static const char *scale = "1", *unit = "events";	/* in the device tree, which stays */

static struct chip {
	u32 id;
	void *area;			/* counters and control block */
	void *control;
	bool resumed;			/* by this driver */
	bool read;			/* whether the next two fields are valid */
	u64 posts, count;		/* at the last read */
} chips[MAX_CHIPS];
static int nr_chips;

/* Words are big-endian, also if the kernel is not. */
static u64 get_word(const void *word)
{
	return be64_to_cpu(READ_ONCE(*(const __be64 *)word));
}

static void command(struct chip *chip, u64 value)
{
	WRITE_ONCE(*(__be64 *)(chip->control + CB_COMMAND), cpu_to_be64(value));
	chip->resumed = value == COMMAND_RESUME;
}

/*
 * Read a count that is not half posted. A post increments the header of the group first and the
 * trailer last. So read the trailer first and the header last: they are equal if no post was in
 * progress between the two.
 */
static bool read_count(const struct chip *chip, u64 *posts, u64 *count)
{
	const void *group = chip->area + rounddown(offset, GROUP_SIZE);
	int tries;

	for (tries = 0; tries < 100; tries++) {
		*posts = get_word(group + GROUP_TRAILER);
		rmb();
		*count = get_word(chip->area + offset);
		rmb();
		if (get_word(group + GROUP_HEADER) == *posts)
			return true;
		udelay(10);
	}
	return false;
}

static void read_chips(struct work_struct *work);
static DECLARE_DELAYED_WORK(reader, read_chips);

static void read_chips(struct work_struct *work)
{
	struct chip *chip;
	u64 posts, count;

	for (chip = chips; chip < chips + nr_chips; chip++) {
		if (get_word(chip->control + CB_STATUS) == STATUS_PAUSED)
			command(chip, COMMAND_RESUME);
		if (!read_count(chip, &posts, &count)) {
			pr_warn("chip %u: a post does not end\n", chip->id);
			continue;
		}
		/* Words wrap at 2^64: subtract unsigned numbers. */
		if (chip->read)
			pr_info("chip %u: %llu posts, count %llu x %s %s\n", chip->id,
				posts - chip->posts, count - chip->count, scale, unit);
		chip->read = true;
		chip->posts = posts;
		chip->count = count;
	}
	schedule_delayed_work(&reader, msecs_to_jiffies(max(interval_ms, 1u)));
}

/* Find the event among those of a nest unit. */
static bool find_event(struct device_node *node)
{
	struct device_node *child, *group = of_parse_phandle(node, "events", 0);
	const char *prefix = "", *name;
	bool found = false;
	char full[128];
	u32 base, reg;

	of_property_read_string(node, "events-prefix", &prefix);
	for_each_child_of_node(group, child) {
		if (of_property_read_u32(node, "reg", &base) ||
		    of_property_read_u32(child, "reg", &reg) ||
		    of_property_read_string(child, "event-name", &name))
			continue;
		snprintf(full, sizeof(full), "nest_%pOFn_imc/%s%s/", node, prefix, name);
		if (strcmp(full, event))
			continue;
		found = true;
		offset = base + reg;
		/* What is missing stays as it is. */
		of_property_read_string(node, "scale", &scale);
		of_property_read_string(child, "scale", &scale);
		of_property_read_string(node, "unit", &unit);
		of_property_read_string(child, "unit", &unit);
	}
	of_node_put(group);
	return found;
}

/* Map the counter area of each chip; false if there is none. */
static bool map_chips(struct device_node *node)
{
	u32 start = 0, size = 0, control = IMC_CNTL_BLK_OFFSET;
	u64 homer;

	of_property_read_u32(node, "offset", &start);
	of_property_read_u32(node, "size", &size);
	of_property_read_u32(node, "cb_offset", &control);
	for (; nr_chips < MAX_CHIPS; nr_chips++) {
		struct chip *chip = &chips[nr_chips];

		if (of_property_read_u32_index(node, "chip-id", nr_chips, &chip->id) ||
		    of_property_read_u64_index(node, "base-addr", nr_chips, &homer))
			break;
		chip->area = memremap(homer + start, size, MEMREMAP_WB);
		if (!chip->area) {
			pr_err("chip %u: 0x%llx cannot be mapped\n", chip->id, homer + start);
			break;
		}
		chip->control = chip->area + control;
		pr_info("chip %u: %s is at 0x%llx + 0x%x\n", chip->id, event, homer + start,
			offset);
	}
	return nr_chips;
}

static int __init nest_imc_init(void)
{
	struct device_node *node;
	bool nest = false;
	u32 type;

	for_each_compatible_node(node, NULL, IMC_DTB_UNIT_COMPAT) {
		if (of_property_read_u32(node, "type", &type) || type != IMC_TYPE_CHIP)
			continue;
		nest = true;
		if (find_event(node))
			break;
	}
	if (!nest)
		pr_err("no nest units in the device tree: is this powernv with imc=on?\n");
	else if (!node)
		pr_err("no event '%s': see /sys/bus/event_source/devices/nest_*/events\n", event);
	if (!node || !map_chips(node)) {
		of_node_put(node);
		return -ENODEV;
	}
	of_node_put(node);
	read_chips(NULL);
	return 0;
}

static void __exit nest_imc_exit(void)
{
	struct chip *chip;

	cancel_delayed_work_sync(&reader);
	for (chip = chips; chip < chips + nr_chips; chip++) {
		if (chip->resumed)
			command(chip, COMMAND_PAUSE);
		memunmap(chip->area);
	}
}

module_init(nest_imc_init);
module_exit(nest_imc_exit);
MODULE_DESCRIPTION("A nest counter of POWER, on all chips");
MODULE_LICENSE("GPL");
