/*
 * QTest of the in-memory collection (IMC) counters of powernv: the nest
 *
 * No CPU executes under qtest, so the counters are a matter of arithmetic: a
 * post is due every 2^speed ms, clocks have known frequencies, and all else is
 * 0 unless the test makes it up. What the area has where is written down here
 * once more, from the catalogs of real machines (81E00612.4E0200.dts and
 * 81E00612.800200.dts of open-power/ima-catalog) and the words in HOMER that
 * skiboot and the OCC firmware use (skiboot's include/imc.h, occ's
 * gpe_24x7_structs.h), and not taken from the model.
 *
 * Where a rule is the model's own, see the comments at the top of
 * hw/ppc/imc/pnv_imc_nest.c and at pnv_imc_place_homer().
 *
 * Copyright (c) qemu-pmu developers
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#include "qemu/osdep.h"
#include "libqtest.h"
#include "qemu/bswap.h"
#include "qemu/units.h"
#include "qobject/qdict.h"
#include "qobject/qlist.h"
#include "qobject/qnum.h"

#define MS              1000000ULL      /* in ns */

/* HOMER and the area of the nest counters */
#define HOMER_SIZE      (4 * MiB)
#define AREA            0x180000
#define AREA_SIZE       0x40000
#define OCC_TABLES      0xe2000
#define STATUS          0x3fc00
#define COMMAND         0x3fc08
#define SPEED           0x3fc10
#define UAV             0x3fc18
#define MODE            0x3fc20
#define MODE_STATE      0x3fc28

#define RESUME          1
#define PAUSE           2
#define CLEAR           3

#define RUNNING         1
#define PAUSED          2
#define BAD_SPEED       3
#define BAD_MODE        4

/* Groups of counters are framed by two words. */
#define GROUP           0x110
#define TRAILER         0x108
#define TOD             0x748

/* No event, and behind the last group */
#define FREE            0x2000

/* Events end before this. */
#define EVENTS_END      0xe00
#define EVENT_WORDS     (EVENTS_END / 8)

#define END             0xffff

/* The events of a unit: register, and name if it is a clock */
typedef struct Kind {
    uint32_t scale;
    uint32_t mhz;
    struct {
        uint16_t reg;
        const char *name;
    } clocks[5];
    uint16_t data[32];
} Kind;

/* A unit exists if a field of the availability vector is @value, or not 0 */
typedef struct Unit {
    const char *name;
    const char *prefix;
    uint8_t bit;
    uint8_t width;
    uint8_t value;
    uint16_t base;
    const Kind *kind;
} Unit;

typedef struct Event {
    const char *name;
    uint32_t offset;
    uint32_t scale;
} Event;

typedef struct Gen {
    const char *machine;
    /* XSCOM: bit of the chip number, and the PBA that tells where HOMER is */
    unsigned chip_shift;
    uint32_t pba;
    uint64_t stock_homer;
    uint64_t uav;
    unsigned modes;
    unsigned groups;
    bool tod;
    bool links;             /* that are one of three kinds */
    const Unit *units;
    /* Clocks of 2 GHz, scale 256, and of 1 GHz; both always exist */
    uint32_t cyc;
    uint32_t phb;
    uint32_t phb_scale;
    /* Events that count nothing, and their names */
    const Event *events;
    /* One of a unit that does not exist by default, and the vector with it */
    Event absent;
    uint64_t with_absent;
} Gen;

/*
 * POWER9, catalog 4E0200
 */

static const Kind p9_powerbus = {
    .scale = 256, .mhz = 2000,
    .clocks = { { 0x78, "CYC" }, { 0xf8, "CYC2" } },
    .data = { 0x00, 0x08, 0x10, 0x18, 0x20, 0x28, 0x30, 0x38, 0x80, 0x88, 0x90,
              0x98, 0xa0, 0xa8, 0xb0, 0xb8, END },
};

static const Kind p9_mcs = {
    .scale = 256,
    .data = { 0x00, 0x08, 0x10, 0x18, 0x20, 0x28, 0x30, END },
};

static const Kind p9_xlink = {
    .scale = 4096, .mhz = 2000,
    .clocks = { { 0x00, "OUT_EVEN_CYC" }, { 0x20, "OUT_ODD_CYC" },
                { 0xc0, "OUT_EVEN_AVLBL_CYC" }, { 0xc8, "OUT_ODD_AVLBL_CYC" } },
    .data = { 0x08, 0x10, 0x18, 0x28, 0x30, 0x38, END },
};

static const Kind p9_alink = {
    .scale = 4096, .mhz = 2000,
    .clocks = { { 0x00, "OUT_EVEN_AVLBL_CYC" }, { 0x20, "OUT_ODD_AVLBL_CYC" } },
    .data = { 0x08, 0x10, 0x18, 0x28, 0x30, 0x38, END },
};

static const Kind p9_nvlink = {
    .scale = 256, .mhz = 2000,
    .clocks = { { 0x00, "CLK_CYC" } },
    .data = { 0x08, 0x10, 0x18, END },
};

static const Kind p9_ats_xts = {
    .scale = 256,
    .data = { 0x00, 0x08, 0x10, 0x18, 0x20, 0x28, 0x30, 0x38, END },
};

static const Kind p9_npcq = {
    .scale = 256,
    .data = { 0x00, 0x08, 0x10, 0x18, END },
};

static const Kind p9_phb = {
    .scale = 1, .mhz = 1000,
    .clocks = { { 0x00, "CYC" } },
    .data = { 0x08, 0x10, 0x18, END },
};

static const Kind p9_nx = {
    .scale = 256,
    .data = { 0x00, 0x08, 0x10, 0x18, 0x20, 0x28, 0x30, 0x38, END },
};

static const Kind p9_mba = {
    .scale = 1, .mhz = 1200,
    .clocks = { { 0x10, "CLK_CYC" } },
    .data = { 0x00, 0x08, END },
};

static const Kind p9_centaur = {
    .scale = 1, .mhz = 1200,
    .clocks = { { 0x10, "PORT0_DRAM_CLK_CYC" },
                { 0x28, "PORT1_DRAM_CLK_CYC" } },
    .data = { 0x00, 0x08, 0x18, 0x20, END },
};

static const Kind p9_capp = {
    .scale = 256, .mhz = 2000,
    .clocks = { { 0x00, "CYC_A" }, { 0x20, "CYC_B" } },
    .data = { 0x08, 0x10, 0x18, 0x28, 0x30, 0x38, END },
};

static const Unit p9_units[] = {
    { "powerbus0", "PM_PB_", 0, 1, 0, 0x008, &p9_powerbus },
    { "mcs01", "PM_MCS01_", 1, 2, 0, 0x0c8, &p9_mcs },
    { "mcs23", "PM_MCS23_", 3, 2, 0, 0x048, &p9_mcs },
    { "xlink0", "PM_XLINK0_", 25, 1, 0, 0x118, &p9_xlink },
    { "xlink1", "PM_XLINK1_", 26, 1, 0, 0x158, &p9_xlink },
    { "xlink2", "PM_XLINK2_", 27, 1, 0, 0x198, &p9_xlink },
    { "nvlink0", "PM_NTL0_", 45, 1, 0, 0x228, &p9_nvlink },
    { "nvlink1", "PM_NTL1_", 46, 1, 0, 0x248, &p9_nvlink },
    { "nvlink2", "PM_NTL2_", 47, 1, 0, 0x268, &p9_nvlink },
    { "nvlink3", "PM_NTL3_", 48, 1, 0, 0x288, &p9_nvlink },
    { "nvlink4", "PM_NTL4_", 49, 1, 0, 0x2a8, &p9_nvlink },
    { "nvlink5", "PM_NTL5_", 50, 1, 0, 0x2c8, &p9_nvlink },
    /* Words that all NVLinks share, and those that two share */
    { "nvlink0", "PM_", 45, 6, 0, 0x2e8, &p9_ats_xts },
    { "nvlink0", "PM_NPCQ0_", 45, 2, 0, 0x668, &p9_npcq },
    { "nvlink2", "PM_NPCQ1_", 47, 2, 0, 0x688, &p9_npcq },
    { "nvlink4", "PM_NPCQ2_", 49, 2, 0, 0x6a8, &p9_npcq },
    { "phb0", "PM_PHB0_", 30, 1, 0, 0x338, &p9_phb },
    { "phb1", "PM_PHB1_", 31, 1, 0, 0x358, &p9_phb },
    { "phb2", "PM_PHB2_", 32, 1, 0, 0x378, &p9_phb },
    { "phb3", "PM_PHB3_", 33, 1, 0, 0x398, &p9_phb },
    { "phb4", "PM_PHB4_", 34, 1, 0, 0x3b8, &p9_phb },
    { "phb5", "PM_PHB5_", 35, 1, 0, 0x3d8, &p9_phb },
    { "nx", "PM_NX_", 36, 1, 0, 0x3f8, &p9_nx },
    { "mba0", "PM_MBA0_", 9, 1, 0, 0x448, &p9_mba },
    { "mba1", "PM_MBA1_", 10, 1, 0, 0x460, &p9_mba },
    { "mba2", "PM_MBA2_", 11, 1, 0, 0x478, &p9_mba },
    { "mba3", "PM_MBA3_", 12, 1, 0, 0x490, &p9_mba },
    { "mba4", "PM_MBA4_", 13, 1, 0, 0x558, &p9_mba },
    { "mba5", "PM_MBA5_", 14, 1, 0, 0x570, &p9_mba },
    { "mba6", "PM_MBA6_", 15, 1, 0, 0x588, &p9_mba },
    { "mba7", "PM_MBA7_", 16, 1, 0, 0x5a0, &p9_mba },
    { "alink0", "PM_ALINK0_", 41, 1, 0, 0x4a8, &p9_alink },
    { "alink1", "PM_ALINK1_", 42, 1, 0, 0x4e8, &p9_alink },
    { "alink2", "PM_ALINK2_", 43, 1, 0, 0x5b8, &p9_alink },
    { "alink3", "PM_ALINK3_", 44, 1, 0, 0x5f8, &p9_alink },
    { "capp0", "PM_CAPP1_", 37, 1, 0, 0x6c8, &p9_capp },
    { "capp1", "PM_CAPP2_", 38, 1, 0, 0x708, &p9_capp },
    { "centaur0", "PM_CEN0_", 17, 1, 0, 0x778, &p9_centaur },
    { "centaur1", "PM_CEN1_", 18, 1, 0, 0x7a8, &p9_centaur },
    { "centaur2", "PM_CEN2_", 19, 1, 0, 0x7d8, &p9_centaur },
    { "centaur3", "PM_CEN3_", 20, 1, 0, 0x808, &p9_centaur },
    { "centaur4", "PM_CEN4_", 21, 1, 0, 0x888, &p9_centaur },
    { "centaur5", "PM_CEN5_", 22, 1, 0, 0x8b8, &p9_centaur },
    { "centaur6", "PM_CEN6_", 23, 1, 0, 0x8e8, &p9_centaur },
    { "centaur7", "PM_CEN7_", 24, 1, 0, 0x918, &p9_centaur },
    { }
};

static const Event p9_events[] = {
    { "mcs01/PM_MCS01_64B_RD_DISP_PORT01", 0x0c8, 256 },
    { "mcs23/PM_MCS23_128B_WR_DISP_PORT23", 0x078, 256 },
    { "powerbus0/PM_PB_RTY_NNS_PUMP_P01", 0x0c0, 256 },
    { "phb5/PM_PHB5_LD_RESP_FROM_PCIE", 0x3f0, 1 },
    { "nx/PM_NX_ERAT_LOOKUP", 0x418, 256 },
    { }
};

/*
 * POWER10, catalog 800200
 */

static const Kind p10_pb = {
    .scale = 1024,
    .data = { 0x000, 0x008, 0x020, 0x028, 0x060, 0x068, 0x070, 0x078, 0x080,
              0x088, 0x0a0, 0x0a8, 0x0b0, 0x0b8, 0x0c0, 0x0c8, 0x0d0, 0x0d8,
              0x0e0, 0x0e8, 0x0f0, 0x0f8, 0x100, 0x108, 0x110, 0x118, 0x130,
              0x138, END },
};

static const Kind p10_pau = {
    .scale = 256, .mhz = 2000,
    .clocks = { { 0x00, "CYC" } },
    .data = { END },
};

static const Kind p10_mcs01 = {
    .scale = 4096,
    .data = { 0x00, 0x08, 0x10, 0x20, 0x28, 0x30, END },
};

static const Kind p10_mcs23 = {
    .scale = 4096,
    .data = { 0x00, 0x08, 0x10, 0x20, 0x28, 0x48, END },
};

static const Kind p10_pec = {
    .scale = 1024,
    .data = { 0x00, 0x48, 0x50, 0x58, END },
};

static const Kind p10_link = {
    .scale = 65536, .mhz = 2000,
    .clocks = { { 0x00, "OUT_EVEN_AVLBL_CYCLES" },
                { 0x20, "OUT_ODD_AVLBL_CYCLES" } },
    .data = { 0x08, 0x10, 0x18, 0x28, 0x30, 0x38, END },
};

static const Kind p10_otl = {
    .scale = 65536, .mhz = 2000,
    .clocks = { { 0x00, "CYC" } },
    .data = { 0x08, 0x10, 0x18, END },
};

static const Kind p10_phb = {
    .scale = 256, .mhz = 1000,
    .clocks = { { 0x00, "CYC" } },
    .data = { 0x08, 0x10, 0x18, END },
};

/* That clock is the time base. */
static const Kind p10_nx = {
    .scale = 65536, .mhz = 512,
    .clocks = { { 0x18, "TIMEBASE_CYC" } },
    .data = { 0x00, 0x08, 0x10, 0x20, 0x28, 0x30, 0x38, END },
};

static const Kind p10_ocmb = {
    .scale = 65536, .mhz = 1600,
    .clocks = { { 0x18, "COMMAND_CLOCKS" } },
    .data = { 0x00, 0x08, 0x10, END },
};

/* Link n is one of three, as the three bits that end at 50 - 3n tell */
#define P10_LINK(n, kind, value, base)                                      \
    { kind "link" #n, value == 5 ? "PM_XLINK" #n "_" : "PM_ALINK" #n "_",   \
      11 + 3 * n, 3, value, base, &p10_link }
#define P10_OTL(n, i, base)                                                 \
    { "otl" #n "_" #i, "PM_OTL" #n "_" #i "_", 11 + 3 * n, 3, 7, base,      \
      &p10_otl }

static const Unit p10_units[] = {
    { "pb", "PM_", 0, 1, 0, 0x0b8, &p10_pb },
    { "pau", "PM_PAU_", 0, 0, 0, 0x040, &p10_pau },
    { "mcs01", "PM_MCS_", 1, 2, 0, 0x008, &p10_mcs01 },
    { "mcs23", "PM_MCS_", 3, 2, 0, 0x088, &p10_mcs23 },
    { "pec0", "PM_PCI0_", 9, 1, 0, 0x020, &p10_pec },
    { "pec1", "PM_PCI1_", 10, 1, 0, 0x0a0, &p10_pec },
    P10_LINK(0, "x", 5, 0x228),
    P10_LINK(1, "x", 5, 0x268),
    P10_LINK(2, "x", 5, 0x2a8),
    P10_LINK(3, "x", 5, 0x2e8),
    P10_LINK(4, "x", 5, 0x338),
    P10_LINK(5, "x", 5, 0x378),
    P10_LINK(6, "x", 5, 0x3b8),
    P10_LINK(7, "x", 5, 0x3f8),
    P10_LINK(0, "a", 6, 0x448),
    P10_LINK(1, "a", 6, 0x488),
    P10_LINK(2, "a", 6, 0x4c8),
    P10_LINK(3, "a", 6, 0x508),
    P10_LINK(4, "a", 6, 0x558),
    P10_LINK(5, "a", 6, 0x598),
    P10_LINK(6, "a", 6, 0x5d8),
    P10_LINK(7, "a", 6, 0x618),
    P10_OTL(0, 0, 0x668),
    P10_OTL(0, 1, 0x688),
    P10_OTL(3, 0, 0x6a8),
    P10_OTL(3, 1, 0x6c8),
    P10_OTL(4, 0, 0x6e8),
    P10_OTL(4, 1, 0x708),
    P10_OTL(5, 0, 0x728),
    P10_OTL(5, 1, 0x748),
    P10_OTL(6, 0, 0x778),
    P10_OTL(6, 1, 0x798),
    P10_OTL(7, 0, 0x7b8),
    P10_OTL(7, 1, 0x7d8),
    { "phb0_0", "PM_PHB0_0_", 35, 1, 0, 0x888, &p10_phb },
    { "phb0_1", "PM_PHB0_1_", 35, 1, 0, 0x8a8, &p10_phb },
    { "phb0_2", "PM_PHB0_2_", 35, 1, 0, 0x8c8, &p10_phb },
    { "phb1_0", "PM_PHB1_0_", 36, 1, 0, 0x8e8, &p10_phb },
    { "phb1_1", "PM_PHB1_1_", 36, 1, 0, 0x908, &p10_phb },
    { "phb1_2", "PM_PHB1_2_", 36, 1, 0, 0x928, &p10_phb },
    { "nx", "PM_NX_", 57, 1, 0, 0x948, &p10_nx },
    { "ocmb0", "PM_OCMB0_", 41, 1, 0, 0x998, &p10_ocmb },
    { "ocmb1", "PM_OCMB1_", 42, 1, 0, 0x9b8, &p10_ocmb },
    { "ocmb2", "PM_OCMB2_", 43, 1, 0, 0x9d8, &p10_ocmb },
    { "ocmb3", "PM_OCMB3_", 44, 1, 0, 0x9f8, &p10_ocmb },
    { "ocmb4", "PM_OCMB4_", 45, 1, 0, 0xaa8, &p10_ocmb },
    { "ocmb5", "PM_OCMB5_", 46, 1, 0, 0xac8, &p10_ocmb },
    { "ocmb6", "PM_OCMB6_", 47, 1, 0, 0xae8, &p10_ocmb },
    { "ocmb7", "PM_OCMB7_", 48, 1, 0, 0xb08, &p10_ocmb },
    { "ocmb8", "PM_OCMB8_", 49, 1, 0, 0xbb8, &p10_ocmb },
    { "ocmb9", "PM_OCMB9_", 50, 1, 0, 0xbd8, &p10_ocmb },
    { "ocmb10", "PM_OCMB10_", 51, 1, 0, 0xbf8, &p10_ocmb },
    { "ocmb11", "PM_OCMB11_", 52, 1, 0, 0xc18, &p10_ocmb },
    { "ocmb12", "PM_OCMB12_", 53, 1, 0, 0xcc8, &p10_ocmb },
    { "ocmb13", "PM_OCMB13_", 54, 1, 0, 0xce8, &p10_ocmb },
    { "ocmb14", "PM_OCMB14_", 55, 1, 0, 0xd08, &p10_ocmb },
    { "ocmb15", "PM_OCMB15_", 56, 1, 0, 0xd28, &p10_ocmb },
    { }
};

static const Event p10_events[] = {
    { "mcs01/PM_MCS_MDI_UPDATE_DONE_MC0_CHAN01", 0x008, 4096 },
    { "mcs23/PM_MCS_64B_WR_DATA_BLOCKS_MC3_CHAN01", 0x0d0, 4096 },
    { "pec1/PM_PCI1_DMA_32B_RD_DATA_STK2", 0x0f8, 1024 },
    { "ocmb7/PM_OCMB7_CAS_RD", 0xb10, 65536 },
    { "pb/PM_PB_RTY_NNS_PUMP23", 0x130, 1024 },
    { }
};

static const Gen gens[] = {
    {
        .machine = "powernv9",
        .chip_shift = 42,
        .pba = 0x5012b00,
        .stock_homer = 0x203ffd800000,
        /* powerbus0, mcs0-3, phb0-5, nx */
        .uav = 0xf8000003f8000000,
        .modes = 1,
        .groups = 9,
        .tod = true,
        .units = p9_units,
        .cyc = 0x080,
        .phb = 0x338,
        .phb_scale = 1,
        .events = p9_events,
        .absent = { "xlink0/PM_XLINK0_OUT_EVEN_ANY_RCMD", 0x120, 4096 },
        .with_absent = 0xf8000043f8000000,
    }, {
        .machine = "powernv10",
        .chip_shift = 44,
        .pba = 0x1010cda,
        .stock_homer = 0x300ffd800000,
        /* pb, mcs0-3, pec0-1, phb0-1, ocmb0-7 */
        .uav = 0xf8600000187f8000,
        .modes = 2,
        .groups = 13,
        .links = true,
        .units = p10_units,
        .cyc = 0x040,
        .phb = 0x888,
        .phb_scale = 256,
        .events = p10_events,
        .absent = { "xlink0/PM_XLINK0_OUT_EVEN_ANY_RCMD", 0x230, 65536 },
        .with_absent = 0xf8740000187f8000,
    },
};

/* ------------------------------------------------------------------------ */
/* The machine, seen through one of its chips */

typedef struct Nest {
    QTestState *qts;
    const Gen *gen;
    unsigned chip;
    uint64_t homer;
    uint64_t area;
} Nest;

static uint64_t xscom(const Gen *gen, unsigned chip, uint32_t pcba)
{
    return 0x603fc00000000 + ((uint64_t)chip << gen->chip_shift) + pcba * 8ULL;
}

/* As firmware finds it: register 0 of the PBA */
static Nest nest_of(QTestState *qts, const Gen *gen, unsigned chip)
{
    Nest n = { .qts = qts, .gen = gen, .chip = chip };

    n.homer = qtest_readq(qts, xscom(gen, chip, gen->pba));
    n.area = n.homer + AREA;
    return n;
}

/* To fill the flash takes most of the time in which a machine starts. */
#define SMALL_FLASH "-global pnv-pnor.size=0x100000 "

static Nest nest_init(const Gen *gen, const char *args)
{
    QTestState *qts = qtest_initf("-M %s,imc=on -nodefaults " SMALL_FLASH "%s",
                                  gen->machine, args);

    return nest_of(qts, gen, 0);
}

#define TWO_CHIPS   "-smp 2,sockets=2,cores=1,threads=1 -m 2G "

static void nest_quit(const Nest *n)
{
    qtest_quit(n->qts);
}

static uint64_t get(const Nest *n, uint32_t offset)
{
    return qtest_readq(n->qts, n->area + offset);
}

static void put(const Nest *n, uint32_t offset, uint64_t value)
{
    qtest_writeq(n->qts, n->area + offset, value);
}

static void step(const Nest *n, uint64_t ns)
{
    qtest_clock_step(n->qts, ns);
}

static void assert_word(const Nest *n, uint32_t offset, uint64_t value)
{
    uint64_t is = get(n, offset);

    if (is != value) {
        g_test_message("chip %u, word 0x%x", n->chip, offset);
    }
    g_assert_cmphex(is, ==, value);
}

/* Of 2 GHz, divided by 256; half a count is left after each odd ms. */
static uint64_t cyc(uint64_t ms)
{
    return ms * 2000000 / 256;
}

/* What a microcode that has made @posts posts in @ms ms shows */
static void assert_posts(const Nest *n, uint64_t posts, uint64_t ms)
{
    assert_word(n, 0, posts);
    assert_word(n, TRAILER, posts);
    assert_word(n, n->gen->cyc, cyc(ms));
    assert_word(n, n->gen->phb, ms * 1000000 / n->gen->phb_scale);
}

static char *imc_path(const Nest *n)
{
    return g_strdup_printf("/machine/chip[%u]/imc", n->chip);
}

static uint64_t get_uint(const Nest *n, const char *property)
{
    g_autofree char *path = imc_path(n);
    QDict *rsp = qtest_qmp(n->qts, "{'execute': 'qom-get', 'arguments':"
                           " {'path': %s, 'property': %s}}", path, property);
    QNum *num = qobject_to(QNum, qdict_get(rsp, "return"));
    uint64_t value;

    g_assert_nonnull(num);
    value = qnum_get_uint(num);
    qobject_unref(rsp);
    return value;
}

static char *get_str(const Nest *n, const char *property)
{
    g_autofree char *path = imc_path(n);
    QDict *rsp = qtest_qmp(n->qts, "{'execute': 'qom-get', 'arguments':"
                           " {'path': %s, 'property': %s}}", path, property);
    char *value = g_strdup(qdict_get_try_str(rsp, "return"));

    qobject_unref(rsp);
    return value;
}

/* Returns NULL, or the error */
static char *try_set(const Nest *n, const char *property, const char *value)
{
    g_autofree char *path = imc_path(n);
    QDict *rsp = qtest_qmp(n->qts, "{'execute': 'qom-set', 'arguments':"
                           " {'path': %s, 'property': %s, 'value': %s}}",
                           path, property, value);
    QDict *error = qdict_get_qdict(rsp, "error");
    char *desc = error ? g_strdup(qdict_get_str(error, "desc")) : NULL;

    qobject_unref(rsp);
    return desc;
}

static char *try_set_uint(const Nest *n, const char *property, uint64_t value)
{
    g_autofree char *path = imc_path(n);
    QDict *rsp = qtest_qmp(n->qts, "{'execute': 'qom-set', 'arguments':"
                           " {'path': %s, 'property': %s, 'value': %" PRIu64
                           "}}", path, property, value);
    QDict *error = qdict_get_qdict(rsp, "error");
    char *desc = error ? g_strdup(qdict_get_str(error, "desc")) : NULL;

    qobject_unref(rsp);
    return desc;
}

static void set(const Nest *n, const char *property, const char *value)
{
    g_autofree char *error = try_set(n, property, value);

    g_assert_cmpstr(error, ==, NULL);
}

static void setf(const Nest *n, const char *property, const char *fmt, ...)
    G_GNUC_PRINTF(3, 4);

static void setf(const Nest *n, const char *property, const char *fmt, ...)
{
    g_autofree char *value = NULL;
    va_list ap;

    va_start(ap, fmt);
    value = g_strdup_vprintf(fmt, ap);
    va_end(ap);
    set(n, property, value);
}

static void set_uav(const Nest *n, uint64_t uav)
{
    g_autofree char *error = try_set_uint(n, "uav", uav);

    g_assert_cmpstr(error, ==, NULL);
}

static void assert_refused(const Nest *n, const char *property,
                           const char *value, const char *why)
{
    g_autofree char *error = try_set(n, property, value);

    g_assert_nonnull(error);
    if (!strstr(error, why)) {
        g_test_message("%s=%s: %s", property, value, error);
    }
    g_assert_nonnull(strstr(error, why));
    g_assert_null(strchr(error, '\n'));
}

/* ------------------------------------------------------------------------ */
/* A second implementation, which makes one post after the other */

typedef struct RefWord {
    uint64_t count;
    uint64_t rest;          /* of the division by @scale */
    uint64_t per_ms;        /* in events */
    uint32_t scale;
    unsigned events;
    bool data;              /* there is an event that is no clock */
} RefWord;

typedef struct Ref {
    const Gen *gen;
    unsigned chip;
    bool demo;
    bool run;
    uint64_t speed;
    uint64_t uav;
    uint64_t mode;
    uint64_t mode_state;
    uint64_t now;
    uint64_t to_post;       /* ns that it has run since the last post */
    uint64_t posts;
    uint64_t tod;
    RefWord words[EVENT_WORDS];
} Ref;

static bool ref_is_frame(const Ref *r, uint32_t offset)
{
    return (offset < r->gen->groups * GROUP &&
            (offset % GROUP == 0 || offset % GROUP == TRAILER)) ||
           (r->gen->tod && offset == TOD);
}

static bool unit_exists(const Unit *u, uint64_t uav)
{
    uint64_t field;

    if (!u->width) {
        return true;
    }
    field = uav << u->bit >> (64 - u->width);
    return u->value ? field == u->value : field != 0;
}

static void ref_event(Ref *r, const Unit *u, uint32_t reg, uint32_t mhz)
{
    uint32_t offset = u->base + reg;
    RefWord *w = &r->words[offset / 8];

    if (!unit_exists(u, r->uav) || ref_is_frame(r, offset)) {
        return;
    }
    if (r->demo && (!mhz || w->events > 1)) {
        w->per_ms = (offset / 8 + 512 * r->chip) * (uint64_t)w->scale;
    } else if (mhz && w->events == 1) {
        w->per_ms = mhz * 1000;
    }
}

static void ref_events(Ref *r, void (*fn)(Ref *r, const Unit *u, uint32_t reg,
                                          uint32_t mhz))
{
    for (const Unit *u = r->gen->units; u->name; u++) {
        for (int i = 0; u->kind->clocks[i].name; i++) {
            fn(r, u, u->kind->clocks[i].reg, u->kind->mhz);
        }
        for (int i = 0; u->kind->data[i] != END; i++) {
            fn(r, u, u->kind->data[i], 0);
        }
    }
}

static void ref_update(Ref *r)
{
    for (int i = 0; i < EVENT_WORDS; i++) {
        r->words[i].per_ms = 0;
    }
    ref_events(r, ref_event);
}

static void ref_declare(Ref *r, const Unit *u, uint32_t reg, uint32_t mhz)
{
    RefWord *w = &r->words[(u->base + reg) / 8];

    w->events++;
    w->scale = u->kind->scale;
}

static Ref *ref_new(const Nest *n)
{
    Ref *r = g_new0(Ref, 1);

    r->gen = n->gen;
    r->chip = n->chip;
    r->run = true;
    r->uav = n->gen->uav;
    for (int i = 0; i < EVENT_WORDS; i++) {
        r->words[i].scale = 1;
    }
    ref_events(r, ref_declare);
    ref_update(r);
    return r;
}

static uint64_t ref_status(const Ref *r)
{
    return r->speed > 11 ? BAD_SPEED :
           r->mode >= r->gen->modes ? BAD_MODE :
           r->run ? RUNNING : PAUSED;
}

static void ref_step(Ref *r, uint64_t ns)
{
    uint64_t end = r->now + ns;

    while (ref_status(r) == RUNNING) {
        uint64_t ms = 1 << r->speed;
        uint64_t left = ms * MS - r->to_post;

        if (end - r->now < left) {
            r->to_post += end - r->now;
            break;
        }
        r->now += left;
        r->to_post = 0;
        r->posts++;
        r->tod = r->now * 512 / 1000;
        for (int i = 0; i < EVENT_WORDS; i++) {
            RefWord *w = &r->words[i];

            w->rest += w->per_ms * ms;
            w->count += w->rest / w->scale;
            w->rest %= w->scale;
        }
    }
    r->now = end;
}

static void ref_clear(Ref *r)
{
    r->to_post = 0;
    r->posts = 0;
    r->tod = 0;
    for (int i = 0; i < EVENT_WORDS; i++) {
        r->words[i].count = 0;
        r->words[i].rest = 0;
    }
}

static uint64_t ref_get(const Ref *r, uint32_t offset)
{
    switch (offset) {
    case STATUS:
        return ref_status(r);
    case COMMAND:
        return 0;
    case SPEED:
        return r->speed;
    case UAV:
        return r->uav;
    case MODE:
        return r->mode;
    case MODE_STATE:
        return r->mode_state;
    }
    if (r->gen->tod && offset == TOD) {
        return r->tod;
    }
    return ref_is_frame(r, offset) ? r->posts : r->words[offset / 8].count;
}

static void ref_put(Ref *r, uint32_t offset, uint64_t value)
{
    switch (offset) {
    case STATUS:
    case MODE_STATE:
        break;
    case COMMAND:
        if (value) {
            r->run = value == RESUME || value == CLEAR;
        }
        if (value == CLEAR) {
            ref_clear(r);
        }
        break;
    case SPEED:
        if (r->speed != value) {
            r->speed = value;
            ref_clear(r);
        }
        break;
    case UAV:
        r->uav = value;
        ref_update(r);
        break;
    case MODE:
        r->mode = value;
        if (value < r->gen->modes) {
            r->mode_state = value;
        }
        break;
    default:
        if (!ref_is_frame(r, offset)) {
            r->words[offset / 8].count = value;
        }
    }
}

/* All words that there are, read at once */
static void ref_check(const Ref *r, const Nest *n)
{
    uint8_t words[EVENTS_END], cb[MODE_STATE + 8 - STATUS];

    qtest_memread(n->qts, n->area, words, sizeof(words));
    for (int i = 0; i < EVENTS_END; i += 8) {
        uint64_t is = ldq_be_p(words + i), ought = ref_get(r, i);

        if (is != ought) {
            g_test_message("chip %u, word 0x%x, uav 0x%" PRIx64, n->chip, i,
                           r->uav);
        }
        g_assert_cmphex(is, ==, ought);
    }
    qtest_memread(n->qts, n->area + STATUS, cb, sizeof(cb));
    for (int i = 0; i < sizeof(cb); i += 8) {
        g_assert_cmphex(ldq_be_p(cb + i), ==, ref_get(r, STATUS + i));
    }
}

/* ------------------------------------------------------------------------ */
/* State of the microcode */

static void assert_boot_state(const Nest *n, uint64_t uav)
{
    g_autofree uint8_t *area = g_malloc(STATUS);

    assert_word(n, STATUS, RUNNING);
    assert_word(n, COMMAND, 0);
    assert_word(n, SPEED, 0);
    assert_word(n, UAV, uav);
    assert_word(n, MODE, 0);
    assert_word(n, MODE_STATE, 0);
    g_assert_cmpint(get_uint(n, "status"), ==, RUNNING);
    g_assert_cmpint(get_uint(n, "speed"), ==, 0);
    g_assert_cmphex(get_uint(n, "uav"), ==, uav);

    /* Nothing has been posted */
    qtest_memread(n->qts, n->area, area, STATUS);
    for (int i = 0; i < STATUS; i++) {
        g_assert_cmphex(area[i], ==, 0);
    }
}

static void test_boot(const void *data)
{
    const Gen *gen = data;
    Nest n = nest_init(gen, TWO_CHIPS);
    Nest n1 = nest_of(n.qts, gen, 1);

    assert_boot_state(&n, gen->uav);
    assert_boot_state(&n1, gen->uav);
    nest_quit(&n);
}

/* All goes back but what the user has asked for by properties */
static void test_reset(const void *data)
{
    const Gen *gen = data;
    Nest n = nest_init(gen, "");
    const Event *e = gen->events;
    g_autofree char *list = g_strdup_printf("%s=const:%u", e->name,
                                            7 * e->scale);
    g_autofree char *is = NULL;

    set(&n, "nest-synthetic", list);
    step(&n, 3 * MS / 2);
    assert_word(&n, e->offset, 7);
    put(&n, FREE, 1);
    put(&n, UAV, gen->with_absent);
    put(&n, MODE, gen->modes - 1);
    qtest_system_reset(n.qts);
    assert_boot_state(&n, gen->uav);

    /* Neither do parts of an interval survive. */
    step(&n, MS - 1);
    assert_posts(&n, 0, 0);
    step(&n, 1);
    assert_posts(&n, 1, 1);
    assert_word(&n, e->offset, 7);
    step(&n, MS / 2);
    qtest_system_reset(n.qts);
    step(&n, MS - 1);
    assert_posts(&n, 0, 0);
    is = get_str(&n, "nest-synthetic");
    g_assert_cmpstr(is, ==, list);

    put(&n, SPEED, 4);
    put(&n, COMMAND, PAUSE);
    set_uav(&n, gen->with_absent);
    qtest_system_reset(n.qts);
    assert_boot_state(&n, gen->with_absent);
    step(&n, MS);
    assert_posts(&n, 1, 1);

    put(&n, SPEED, 12);
    put(&n, MODE, gen->modes);
    qtest_system_reset(n.qts);
    assert_boot_state(&n, gen->with_absent);
    nest_quit(&n);
}

static void test_commands(const void *data)
{
    Nest n = nest_init(data, "");

    /* Pause; counters stay. What was not yet posted is not lost. */
    step(&n, 5 * MS / 2);
    put(&n, COMMAND, PAUSE);
    assert_word(&n, COMMAND, 0);
    assert_word(&n, STATUS, PAUSED);
    g_assert_cmpint(get_uint(&n, "status"), ==, PAUSED);
    step(&n, 10 * MS);
    assert_posts(&n, 2, 2);
    put(&n, COMMAND, PAUSE);
    assert_word(&n, STATUS, PAUSED);

    /* No command is no command. */
    put(&n, COMMAND, 0);
    assert_word(&n, STATUS, PAUSED);

    put(&n, COMMAND, RESUME);
    assert_word(&n, COMMAND, 0);
    assert_word(&n, STATUS, RUNNING);
    assert_posts(&n, 2, 2);
    step(&n, MS / 2 - 1);
    assert_posts(&n, 2, 2);
    step(&n, 1);
    assert_posts(&n, 3, 3);

    /* Resume while it runs changes nothing, nor does no command */
    step(&n, MS / 4);
    put(&n, COMMAND, RESUME);
    step(&n, MS / 4);
    put(&n, COMMAND, 0);
    assert_word(&n, STATUS, RUNNING);
    step(&n, MS / 2);
    assert_posts(&n, 4, 4);

    /* Clear begins anew, and keeps what was asked for */
    step(&n, MS / 2);
    put(&n, FREE, 5);
    put(&n, SPEED, 1);
    put(&n, UAV, n.gen->with_absent);
    step(&n, 5 * MS);
    assert_posts(&n, 2, 4);
    put(&n, COMMAND, CLEAR);
    assert_word(&n, COMMAND, 0);
    assert_word(&n, STATUS, RUNNING);
    assert_posts(&n, 0, 0);
    assert_word(&n, FREE, 0);
    assert_word(&n, SPEED, 1);
    assert_word(&n, UAV, n.gen->with_absent);
    step(&n, 2 * MS - 1);
    assert_posts(&n, 0, 0);
    step(&n, 1);
    assert_posts(&n, 1, 2);

    /* Clear resumes */
    put(&n, COMMAND, PAUSE);
    step(&n, 3 * MS);
    put(&n, COMMAND, CLEAR);
    assert_word(&n, STATUS, RUNNING);
    assert_posts(&n, 0, 0);
    step(&n, 4 * MS);
    assert_posts(&n, 2, 4);
    nest_quit(&n);
}

static void test_bad_commands(const void *data)
{
    static const uint64_t bad[] = {
        4, 5, 0x102, 0x100000000, 0x8000000000000001, UINT64_MAX,
    };
    Nest n = nest_init(data, "");

    for (int i = 0; i < ARRAY_SIZE(bad); i++) {
        put(&n, COMMAND, bad[i]);
        assert_word(&n, COMMAND, 0);
        assert_word(&n, STATUS, PAUSED);
        step(&n, MS);
        assert_posts(&n, i, i);
        put(&n, COMMAND, RESUME);
        assert_word(&n, STATUS, RUNNING);
        step(&n, MS);
        assert_posts(&n, i + 1, i + 1);
    }
    nest_quit(&n);
}

/* Many short runs, as perf makes them: parts of intervals add up. */
static void test_pauses(const void *data)
{
    Nest n = nest_init(data, "");

    for (int i = 1; i <= 1000; i++) {
        step(&n, 300000);
        put(&n, COMMAND, PAUSE);
        step(&n, 700000);
        assert_word(&n, 0, i * 3 / 10);
        put(&n, COMMAND, RESUME);
    }
    assert_posts(&n, 300, 300);
    nest_quit(&n);
}

static void test_speeds(const void *data)
{
    Nest n = nest_init(data, "");

    for (int speed = 11; speed >= 0; speed--) {
        uint64_t ms = 1 << speed;

        put(&n, FREE, 1);
        put(&n, SPEED, speed);
        assert_word(&n, SPEED, speed);
        g_assert_cmpint(get_uint(&n, "speed"), ==, speed);
        assert_word(&n, STATUS, RUNNING);
        assert_posts(&n, 0, 0);
        assert_word(&n, FREE, 0);

        step(&n, ms * MS - 1);
        assert_posts(&n, 0, 0);
        step(&n, 1);
        assert_posts(&n, 1, ms);
        step(&n, 2 * ms * MS);
        assert_posts(&n, 3, 3 * ms);

        /* No change does not clear, and part of an interval stays */
        step(&n, ms * MS / 2);
        put(&n, SPEED, speed);
        assert_posts(&n, 3, 3 * ms);
        step(&n, ms * MS - ms * MS / 2);
        assert_posts(&n, 4, 4 * ms);
        step(&n, ms * MS / 2);
    }
    nest_quit(&n);
}

static void test_bad_speeds(const void *data)
{
    static const uint64_t bad[] = {
        12, 13, 63, 64, 0x100, 0x100000000, 0x10000000b, 0x8000000000000000,
        UINT64_MAX,
    };
    Nest n = nest_init(data, "");

    for (int i = 0; i < ARRAY_SIZE(bad); i++) {
        step(&n, 3 * MS / 2);
        put(&n, SPEED, bad[i]);
        assert_word(&n, STATUS, BAD_SPEED);
        g_assert_cmpint(get_uint(&n, "status"), ==, BAD_SPEED);
        assert_word(&n, SPEED, bad[i]);
        assert_posts(&n, 0, 0);
        step(&n, 5000 * MS);
        assert_posts(&n, 0, 0);

        /* No command helps */
        for (int command = RESUME; command <= CLEAR; command++) {
            put(&n, COMMAND, command);
            assert_word(&n, COMMAND, 0);
            assert_word(&n, STATUS, BAD_SPEED);
        }
        put(&n, SPEED, i % 2);
        assert_word(&n, STATUS, RUNNING);
        step(&n, 2 * MS - 1);
        assert_posts(&n, i % 2 ? 0 : 1, i % 2 ? 0 : 1);
        step(&n, 1);
        assert_posts(&n, i % 2 ? 1 : 2, 2);
    }

    /* But a pause is remembered */
    put(&n, SPEED, 12);
    put(&n, COMMAND, PAUSE);
    assert_word(&n, STATUS, BAD_SPEED);
    put(&n, SPEED, 0);
    assert_word(&n, STATUS, PAUSED);
    nest_quit(&n);
}

static void test_modes(const void *data)
{
    static const uint64_t bad[] = {
        2, 3, 0x100, 0x100000000, 0x8000000000000000, UINT64_MAX,
    };
    Nest n = nest_init(data, "");
    bool newer = n.gen->modes == 2;
    unsigned posts = 0;

    /* Newer microcode has a mode 1 */
    step(&n, MS / 2);
    put(&n, MODE, 1);
    assert_word(&n, MODE, 1);
    assert_word(&n, MODE_STATE, newer);
    assert_word(&n, STATUS, newer ? RUNNING : BAD_MODE);
    step(&n, MS);
    assert_posts(&n, newer, newer);
    put(&n, MODE, 0);
    assert_word(&n, MODE_STATE, 0);
    assert_word(&n, STATUS, RUNNING);
    step(&n, MS / 2);
    posts = newer ? 2 : 1;
    assert_posts(&n, posts, posts);

    put(&n, MODE, n.gen->modes - 1);
    for (int i = 0; i < ARRAY_SIZE(bad); i++) {
        step(&n, MS / 2);
        put(&n, MODE, bad[i]);
        assert_word(&n, MODE, bad[i]);
        assert_word(&n, MODE_STATE, n.gen->modes - 1);
        assert_word(&n, STATUS, BAD_MODE);
        g_assert_cmpint(get_uint(&n, "status"), ==, BAD_MODE);
        step(&n, 3 * MS);
        put(&n, COMMAND, RESUME);
        assert_word(&n, STATUS, BAD_MODE);
        step(&n, 3 * MS);

        /* It stopped, and that is all */
        assert_posts(&n, posts, posts);
        put(&n, MODE, n.gen->modes - 1);
        assert_word(&n, STATUS, RUNNING);
        step(&n, MS / 2);
        posts++;
        assert_posts(&n, posts, posts);
    }
    nest_quit(&n);
}

static void test_read_only(const void *data)
{
    static const uint64_t values[] = { 0, PAUSED, BAD_SPEED, UINT64_MAX };
    Nest n = nest_init(data, "");

    for (int i = 0; i < ARRAY_SIZE(values); i++) {
        put(&n, STATUS, values[i]);
        put(&n, MODE_STATE, values[i]);
        assert_word(&n, STATUS, RUNNING);
        assert_word(&n, MODE_STATE, 0);
        /* Firmware does not see 0 either between the bytes of a store */
        for (int b = 0; b < 8; b++) {
            qtest_writeb(n.qts, n.area + STATUS + b, 0);
            assert_word(&n, STATUS, RUNNING);
        }
        for (unsigned group = 0; group < n.gen->groups; group++) {
            put(&n, group * GROUP, values[i]);
            put(&n, group * GROUP + TRAILER, values[i]);
        }
        if (n.gen->tod) {
            put(&n, TOD, values[i]);
            assert_word(&n, TOD, i * 512000);
        }
        for (unsigned group = 0; group < n.gen->groups; group++) {
            assert_word(&n, group * GROUP, i);
            assert_word(&n, group * GROUP + TRAILER, i);
        }
        step(&n, MS);
    }
    nest_quit(&n);
}

static void test_bytes_of_control(const void *data)
{
    Nest n = nest_init(data, "");
    uint64_t uav = 0x0123456789abcdef;

    /* The bytes of a word, first to last and last to first */
    for (int i = 0; i < 8; i++) {
        qtest_writeb(n.qts, n.area + COMMAND + i, i == 7 ? PAUSE : 0);
    }
    assert_word(&n, STATUS, PAUSED);
    assert_word(&n, COMMAND, 0);
    for (int i = 7; i >= 0; i--) {
        qtest_writeb(n.qts, n.area + COMMAND + i, i == 7 ? RESUME : 0);
    }
    assert_word(&n, STATUS, RUNNING);
    qtest_writew(n.qts, n.area + COMMAND + 6, PAUSE);
    assert_word(&n, STATUS, PAUSED);
    qtest_writel(n.qts, n.area + COMMAND + 4, RESUME);
    assert_word(&n, STATUS, RUNNING);

    /* What follows the half of a command is the half of a speed. */
    qtest_writeq(n.qts, n.area + COMMAND + 4, (uint64_t)PAUSE << 32);
    assert_word(&n, STATUS, PAUSED);
    assert_word(&n, SPEED, 0);
    qtest_writeq(n.qts, n.area + COMMAND + 4, 1);
    assert_word(&n, SPEED, 0x100000000);
    assert_word(&n, STATUS, BAD_SPEED);
    qtest_writel(n.qts, n.area + SPEED, 0);
    qtest_writeb(n.qts, n.area + SPEED + 7, 2);
    assert_word(&n, SPEED, 2);
    assert_word(&n, STATUS, PAUSED);
    qtest_writeb(n.qts, n.area + COMMAND + 7, RESUME);
    step(&n, 4 * MS);
    assert_posts(&n, 1, 4);

    for (int i = 0; i < 8; i++) {
        qtest_writeb(n.qts, n.area + UAV + i, uav >> (56 - 8 * i));
    }
    assert_word(&n, UAV, uav);
    nest_quit(&n);
}

/* ------------------------------------------------------------------------ */
/* Counters */

static void test_post_time(const void *data)
{
    Nest n = nest_init(data, "");

    step(&n, 999999);
    assert_posts(&n, 0, 0);
    step(&n, 1);
    assert_posts(&n, 1, 1);
    step(&n, 999999);
    assert_posts(&n, 1, 1);
    step(&n, 1);
    assert_posts(&n, 2, 2);

    /* Also if nobody has looked at the posts in between */
    step(&n, 997 * MS + 999999);
    assert_posts(&n, 999, 999);
    step(&n, 1);
    assert_posts(&n, 1000, 1000);
    nest_quit(&n);
}

/* The time base counts at 512 MHz, from the start of the machine */
static void test_tod(const void *data)
{
    Nest n = nest_init(data, "");
    bool tod = n.gen->tod;

    step(&n, 5 * MS / 2);
    assert_word(&n, TOD, tod ? 2 * 512000 : 0);
    put(&n, COMMAND, PAUSE);
    step(&n, 1234567);
    assert_word(&n, TOD, tod ? 2 * 512000 : 0);
    put(&n, COMMAND, RESUME);
    step(&n, 499999);
    assert_word(&n, TOD, tod ? 2 * 512000 : 0);

    /* The third post is at 2.5 ms + 1.234567 ms + 0.5 ms. */
    step(&n, 12345);
    assert_word(&n, TOD, tod ? 4234567ULL * 512 / 1000 : 0);
    put(&n, COMMAND, CLEAR);
    assert_word(&n, TOD, 0);
    step(&n, 8 * MS);
    assert_word(&n, TOD, tod ? (4246911 + 8 * MS) * 512 / 1000 : 0);
    nest_quit(&n);
}

static void assert_clocks(const Nest *n, uint64_t uav, uint64_t ms)
{
    for (const Unit *u = n->gen->units; u->name; u++) {
        for (int i = 0; u->kind->clocks[i].name; i++) {
            uint32_t offset = u->base + u->kind->clocks[i].reg;

            /* See test_shared() */
            if (offset != 0x218 && offset != 0x220 && offset != 0x258 &&
                offset != 0x260 && unit_exists(u, uav)) {
                assert_word(n, offset,
                            ms * u->kind->mhz * 1000 / u->kind->scale);
            }
        }
    }
}

/* All units exist; on POWER10, all links are of the kind @link. */
static uint64_t all_units(const Gen *gen, unsigned link)
{
    const uint64_t links = 0xffffffULL << 29, ones = 0x249249ULL << 29;

    return gen->links ? ~links | ones * link : UINT64_MAX;
}

/*
 * Steps that do not divide the interval, and amounts that are no multiples of
 * the scale: what is left is carried
 */
static void test_carry(const void *data)
{
    Nest n = nest_init(data, "");
    uint64_t uav = all_units(n.gen, 5);
    uint64_t ns = 0;

    put(&n, UAV, uav);
    for (int i = 1; i <= 1000; i++) {
        unsigned length = 777777 + 1013 * i;

        step(&n, length);
        ns += length;
        if (i % 3 == 0) {
            assert_posts(&n, ns / MS, ns / MS);
        }
        if (i % 100 == 0) {
            assert_clocks(&n, uav, ns / MS);
        }
    }
    /* An hour, and a century in which nothing can run */
    step(&n, 3600000 * MS);
    qtest_qmp_assert_success(n.qts, "{'execute': 'stop'}");
    step(&n, 876000ULL * 3600000 * MS);
    qtest_qmp_assert_success(n.qts, "{'execute': 'cont'}");
    ns += 876001ULL * 3600000 * MS;
    assert_posts(&n, ns / MS, ns / MS);
    assert_clocks(&n, uav, ns / MS);
    nest_quit(&n);
}

/* Every unit counts its clocks at their frequencies, and nothing else counts */
static void test_clocks(const void *data)
{
    Nest n = nest_init(data, "");
    g_autofree Ref *r = ref_new(&n);

    for (unsigned link = 5; link <= 7; link++) {
        put(&n, UAV, all_units(n.gen, link));
        ref_put(r, UAV, all_units(n.gen, link));
        step(&n, 1237 * MS);
        ref_step(r, 1237 * MS);
        ref_check(r, &n);
        assert_clocks(&n, r->uav, 1237);
        assert_word(&n, FREE, 0);
        put(&n, COMMAND, CLEAR);
        ref_put(r, COMMAND, CLEAR);
    }
    nest_quit(&n);
}

static void ref_availability(const Nest *n, Ref *r, uint64_t uav)
{
    /* By the guest, or by the user who may not say that there is nothing */
    if (r->posts % 2 || !uav) {
        put(n, UAV, uav);
    } else {
        set_uav(n, uav);
    }
    assert_word(n, UAV, uav);
    ref_put(r, UAV, uav);
    step(n, MS);
    ref_step(r, MS);
    ref_check(r, n);
}

/* Each bit alone, and each value of a link: units come and go, counts stay */
static void test_availability(const void *data)
{
    Nest n = nest_init(data, "");
    g_autofree Ref *r = ref_new(&n);

    for (int demo = 0; demo < 2; demo++) {
        for (unsigned bit = 0; bit < 64; bit++) {
            ref_availability(&n, r, 1ULL << bit);
        }
        for (unsigned link = 0; link < 8; link++) {
            for (uint64_t value = 0; value < 8; value++) {
                ref_availability(&n, r, value << (50 - 3 * link));
            }
        }
        set(&n, "nest-synthetic", "demo");
        r->demo = true;
        ref_put(r, UAV, r->uav);
    }
    nest_quit(&n);
}

/*
 * The catalog of POWER9 has events where it cannot have: two of xlink1 in the
 * frame of a group, and two of xlink2 in words of nvlink1
 */
static void test_shared(const void *data)
{
    Nest n = nest_init(data, "");

    put(&n, UAV, UINT64_MAX);
    step(&n, MS);
    assert_word(&n, 0x158, 2000000 / 4096);
    assert_word(&n, 0x218, 1);
    assert_word(&n, 0x220, 1);
    assert_word(&n, 0x198, 2000000 / 4096);
    assert_word(&n, 0x258, 0);
    assert_word(&n, 0x260, 0);

    /* With one of the two units alone, too */
    put(&n, UAV, 1ULL << (63 - 27));
    step(&n, MS);
    assert_word(&n, 0x198, 2 * 2000000 / 4096);
    assert_word(&n, 0x258, 0);

    /* What all NVLinks share counts if there is any of them. */
    for (unsigned link = 0; link < 6; link++) {
        put(&n, UAV, 1ULL << (63 - 45 - link));
        set(&n, "nest-synthetic",
            "nvlink0/PM_XTS_ATSD_SENT=const:256,"
            "nvlink3/PM_NPCQ1_CREQ_BRICK0=const:256");
        step(&n, MS);
        assert_word(&n, 0x320, link + 1);
        assert_word(&n, 0x688, link < 2 ? 0 : link < 4 ? link - 1 : 2);
    }
    nest_quit(&n);
}

/* Header and trailer of all groups are the number of posts, at any time */
static void test_frames(const void *data)
{
    Nest n = nest_init(data, "");

    for (unsigned posts = 0; posts < 20; posts++) {
        for (unsigned group = 0; group < n.gen->groups; group++) {
            assert_word(&n, group * GROUP, posts);
            assert_word(&n, group * GROUP + TRAILER, posts);
        }
        /* What follows the last group is none. */
        assert_word(&n, n.gen->groups * GROUP, 0);
        assert_word(&n, n.gen->groups * GROUP + TRAILER, 0);
        step(&n, MS);
    }
    nest_quit(&n);
}

/* A post adds to what is in memory, modulo 2^64 and with nothing kept back */
static void test_wrap(const void *data)
{
    Nest n = nest_init(data, "");
    const Event *e = n.gen->events;
    g_autofree char *list = NULL;
    uint64_t count;

    put(&n, n.gen->cyc, UINT64_MAX - 3);
    put(&n, n.gen->phb, 1ULL << 63);
    assert_word(&n, n.gen->cyc, UINT64_MAX - 3);
    step(&n, MS);
    assert_word(&n, n.gen->cyc, cyc(1) - 4);
    assert_word(&n, n.gen->phb, (1ULL << 63) + 1000000 / n.gen->phb_scale);

    /* The half of a count that was left is still there */
    put(&n, n.gen->cyc, UINT64_MAX);
    assert_word(&n, n.gen->cyc, UINT64_MAX);
    step(&n, MS);
    assert_word(&n, n.gen->cyc, cyc(2) - cyc(1) - 1);

    /* Stores to one word leave all others as they are */
    put(&n, 8, UINT64_MAX);
    assert_word(&n, 0x10, 0);
    step(&n, MS);
    assert_word(&n, 8, UINT64_MAX);
    assert_word(&n, 0x10, 0);

    put(&n, e->offset, 0x1122334455667788);
    step(&n, MS);
    assert_word(&n, e->offset, 0x1122334455667788);

    /* Also whoever adds */
    setf(&n, "nest-add", "%s=0xeeddccbbaa998879", e->name);
    assert_word(&n, e->offset, 1);
    setf(&n, "nest-add", "%s=0xffffffffffffffff", e->name);
    assert_word(&n, e->offset, 0);
    setf(&n, "nest-add", "0x%x=18446744073709551615", n.gen->cyc);
    assert_word(&n, n.gen->cyc, cyc(4) - cyc(1) - 2);

    /* Amounts of up to 2^64 - 1 per post, in words of scale 1 and of others */
    put(&n, e->offset, 0);
    list = g_strdup_printf("%s=const:0xffffffffffffffff,0x%x=const:"
                           "18446744073709551615", e->name, FREE);
    for (uint64_t posts = 1; posts < 20; posts++) {
        /* Which must not matter */
        if (posts == 1 || posts > 10) {
            set(&n, "nest-synthetic", list);
        }
        step(&n, MS);
        assert_word(&n, FREE, -posts);
        /* Rounded down: posts * 2^64 / scale, less one for posts / scale */
        count = posts * (UINT64_MAX / e->scale + 1) - 1;
        assert_word(&n, e->offset, count);
    }
    step(&n, 100000 * MS);
    assert_word(&n, FREE, -100019ULL);
    count = 100019 * (UINT64_MAX / e->scale + 1) -
            DIV_ROUND_UP(100019, e->scale);
    assert_word(&n, e->offset, count);
    nest_quit(&n);
}

/* A change of anything but the speed does not lose parts of counts. */
static void test_rest(const void *data)
{
    Nest n = nest_init(data, "");

    for (int i = 0; i < 50; i++) {
        step(&n, MS);
        put(&n, UAV, i % 2 ? n.gen->uav : n.gen->with_absent);
        step(&n, MS / 2);
        set(&n, "nest-synthetic", i % 2 ? "demo" : "");
        set_uav(&n, i % 2 ? n.gen->with_absent : n.gen->uav);
        step(&n, MS / 2);
    }
    assert_posts(&n, 100, 100);
    nest_quit(&n);
}

/* ------------------------------------------------------------------------ */
/* Accesses */

static uint64_t read_size(const Nest *n, uint64_t addr, unsigned size)
{
    return size == 1 ? qtest_readb(n->qts, addr) :
           size == 2 ? qtest_readw(n->qts, addr) :
           size == 4 ? qtest_readl(n->qts, addr) : qtest_readq(n->qts, addr);
}

static void write_size(const Nest *n, uint64_t addr, unsigned size,
                       uint64_t value)
{
    if (size == 1) {
        qtest_writeb(n->qts, addr, value);
    } else if (size == 2) {
        qtest_writew(n->qts, addr, value);
    } else if (size == 4) {
        qtest_writel(n->qts, addr, value);
    } else {
        qtest_writeq(n->qts, addr, value);
    }
}

/* Memory is a row of bytes, however one looks at it; words are big endian */
static void test_access_sizes(const void *data)
{
    Nest n = nest_init(data, "");
    uint8_t shadow[24], is[24];

    for (unsigned size = 1; size <= 8; size *= 2) {
        for (unsigned at = 0; at + size <= sizeof(shadow); at++) {
            uint64_t value = 0x8192a3b4c5d6e7f8 + at * 0x0101010101010101;
            uint8_t bytes[8];

            stq_be_p(shadow, 0x0102030405060708);
            stq_be_p(shadow + 8, 0x1112131415161718);
            stq_be_p(shadow + 16, 0x2122232425262728);
            for (unsigned i = 0; i < sizeof(shadow); i += 8) {
                put(&n, FREE + i, ldq_be_p(shadow + i));
            }

            stq_be_p(bytes, value);
            write_size(&n, n.area + FREE + at, size, value);
            memcpy(shadow + at, bytes + 8 - size, size);
            for (unsigned i = 0; i < sizeof(shadow); i += 8) {
                assert_word(&n, FREE + i, ldq_be_p(shadow + i));
            }

            for (unsigned i = 0; i + size <= sizeof(shadow); i++) {
                memset(bytes, 0, sizeof(bytes));
                memcpy(bytes + 8 - size, shadow + i, size);
                g_assert_cmphex(read_size(&n, n.area + FREE + i, size), ==,
                                ldq_be_p(bytes));
            }
            qtest_memread(n.qts, n.area + FREE, is, sizeof(is));
            g_assert_cmpmem(is, sizeof(is), shadow, sizeof(shadow));
        }
    }

    /* A counter and its bytes */
    step(&n, 3 * MS);
    for (unsigned i = 0; i < 8; i++) {
        g_assert_cmphex(qtest_readb(n.qts, n.area + n.gen->cyc + i), ==,
                        (uint8_t)(cyc(3) >> (56 - 8 * i)));
    }
    qtest_writeb(n.qts, n.area + n.gen->cyc, 0x80);
    assert_word(&n, n.gen->cyc, cyc(3) | 1ULL << 63);
    step(&n, MS);
    assert_word(&n, n.gen->cyc, cyc(4) | 1ULL << 63);
    nest_quit(&n);
}

/* HOMER around the area is memory, and so is what is around HOMER. */
static void test_edges(const void *data)
{
    Nest n = nest_init(data, "-m 1100M");
    const uint64_t words[] = {
        n.homer - 8, n.homer, n.homer + 0x2000, n.area - 8,
        n.area + AREA_SIZE, n.area + AREA_SIZE + 0x3fc00,
        n.homer + HOMER_SIZE - 8, n.homer + HOMER_SIZE,
    };

    for (int i = 0; i < ARRAY_SIZE(words); i++) {
        qtest_writeq(n.qts, words[i], 0xa5a5a5a5a5a5a500 + i);
    }
    step(&n, 3 * MS);
    assert_word(&n, 0, 3);
    for (int i = 0; i < ARRAY_SIZE(words); i++) {
        g_assert_cmphex(qtest_readq(n.qts, words[i]), ==,
                        0xa5a5a5a5a5a5a500 + i);
    }

    /* Across the beginning: memory, then a header */
    qtest_writeq(n.qts, n.area - 4, 0x1122334455667788);
    g_assert_cmphex(qtest_readq(n.qts, n.area - 4), ==, 0x1122334400000000);
    assert_word(&n, 0, 3);

    /* And across the end */
    put(&n, AREA_SIZE - 8, 0);
    qtest_writeb(n.qts, n.area + AREA_SIZE - 1, 0x5a);
    g_assert_cmphex(qtest_readb(n.qts, n.area + AREA_SIZE - 1), ==, 0x5a);
    for (unsigned size = 2; size <= 8; size *= 2) {
        for (unsigned before = 1; before < size; before++) {
            uint64_t addr = n.area + AREA_SIZE - before;
            uint64_t value = 0x8899aabbccddeeff >> (64 - 8 * size);

            write_size(&n, addr, size, value);
            g_assert_cmphex(read_size(&n, addr, size), ==, value);
        }
    }
    assert_word(&n, STATUS, RUNNING);
    nest_quit(&n);
}

/* The monitor sees what the guest sees */
static void test_monitor(const void *data)
{
    Nest n = nest_init(data, "");
    g_autofree char *file = NULL, *saved = NULL, *xp = NULL, *ought = NULL;
    g_autofree char *seen = g_malloc(AREA_SIZE);
    int fd = g_file_open_tmp("pnv-imc-XXXXXX", &file, NULL);
    size_t size;

    g_assert(fd >= 0);
    close(fd);
    step(&n, 7 * MS);
    put(&n, FREE, 0x0123456789abcdef);
    qtest_qmp_assert_success(n.qts, "{'execute': 'pmemsave', 'arguments':"
                             " {'val': %" PRIu64 ", 'size': %u,"
                             " 'filename': %s}}", n.area, AREA_SIZE, file);
    g_assert(g_file_get_contents(file, &saved, &size, NULL));
    unlink(file);
    qtest_memread(n.qts, n.area, seen, AREA_SIZE);
    g_assert_cmpmem(saved, size, seen, AREA_SIZE);
    g_assert_cmphex(ldq_be_p(saved), ==, 7);
    g_assert_cmphex(ldq_be_p(saved + n.gen->cyc), ==, cyc(7));
    g_assert_cmphex(ldq_be_p(saved + STATUS), ==, RUNNING);
    g_assert_cmphex(ldq_be_p(saved + FREE), ==, 0x0123456789abcdef);

    xp = qtest_hmp(n.qts, "xp /1gx 0x%" PRIx64, n.area + n.gen->cyc);
    ought = g_strdup_printf(": 0x%016" PRIx64, cyc(7));
    g_assert_nonnull(strstr(xp, ought));
    nest_quit(&n);
}

/* ------------------------------------------------------------------------ */
/* Properties */

static void test_properties(const void *data)
{
    Nest n = nest_init(data, "");
    g_autofree char *zero = try_set_uint(&n, "uav", 0);
    g_autofree char *status = try_set_uint(&n, "status", 1);
    g_autofree char *speed = try_set_uint(&n, "speed", 1);
    g_autofree char *add = NULL;

    g_assert_nonnull(zero);
    g_assert_nonnull(strstr(zero, "uav must not be 0"));
    g_assert_nonnull(status);
    g_assert_nonnull(speed);
    assert_refused(&n, "uav", "some", "uav");
    add = get_str(&n, "nest-add");
    g_assert_null(add);
    assert_boot_state(&n, n.gen->uav);

    /* What the guest stores is its own, until reset */
    put(&n, UAV, n.gen->with_absent);
    g_assert_cmphex(get_uint(&n, "uav"), ==, n.gen->uav);
    set_uav(&n, UINT64_MAX);
    assert_word(&n, UAV, UINT64_MAX);
    g_assert_cmphex(get_uint(&n, "uav"), ==, UINT64_MAX);
    put(&n, SPEED, UINT64_MAX);
    g_assert_cmphex(get_uint(&n, "speed"), ==, UINT64_MAX);
    nest_quit(&n);
}

/* A unit that goes away keeps its counters, and goes on when it comes back */
static void test_unit_freeze(const void *data)
{
    Nest n = nest_init(data, "");
    const Event *e = &n.gen->absent;
    /* The first clock of that link is just before the event */
    uint32_t clock = e->offset - 8;

    setf(&n, "nest-synthetic", "%s=const:%u", e->name, e->scale);
    step(&n, MS);
    assert_word(&n, e->offset, 0);
    assert_word(&n, clock, 0);
    for (int i = 0; i < 3; i++) {
        set_uav(&n, n.gen->with_absent);
        assert_word(&n, e->offset, 10 * i);
        step(&n, 10 * MS);
        assert_word(&n, e->offset, 10 * (i + 1));
        assert_word(&n, clock, 10 * (i + 1) * 2000000 / e->scale);
        set_uav(&n, n.gen->uav);
        step(&n, 3 * MS);
        assert_word(&n, e->offset, 10 * (i + 1));
        assert_word(&n, clock, 10 * (i + 1) * 2000000 / e->scale);
    }
    assert_posts(&n, 40, 40);
    nest_quit(&n);
}

/* POWER10: link n is what three bits say */
static void test_links(const void *data)
{
    Nest n = nest_init(data, "");
    const uint64_t one = 2000000 / 65536, two = 2 * 2000000 / 65536;
    const uint64_t none = n.gen->uav;

    /* X link 1, A link 2, OpenCAPI 3 */
    set_uav(&n, none | 5ULL << 47 | 6ULL << 44 | 7ULL << 41);
    step(&n, MS);
    assert_word(&n, 0x268, one);
    assert_word(&n, 0x488, 0);
    assert_word(&n, 0x2a8, 0);
    assert_word(&n, 0x4c8, one);
    assert_word(&n, 0x2e8, 0);
    assert_word(&n, 0x508, 0);
    assert_word(&n, 0x6a8, one);
    assert_word(&n, 0x6c8, one);
    assert_word(&n, 0x668, 0);

    /* One becomes another */
    set_uav(&n, none | 6ULL << 47 | 7ULL << 44 | 5ULL << 41);
    step(&n, MS);
    assert_word(&n, 0x268, one);
    assert_word(&n, 0x488, one);
    assert_word(&n, 0x2a8, 0);
    assert_word(&n, 0x4c8, one);
    assert_word(&n, 0x2e8, one);
    assert_word(&n, 0x6a8, one);

    /* And other values are none of them. */
    set_uav(&n, none | 4ULL << 47 | 3ULL << 44 | 1ULL << 41);
    step(&n, MS);
    assert_word(&n, 0x268, one);
    assert_word(&n, 0x488, one);
    assert_word(&n, 0x4c8, one);
    assert_word(&n, 0x2e8, one);
    assert_word(&n, 0x6a8, one);
    set_uav(&n, none | 5ULL << 47);
    step(&n, MS);
    assert_word(&n, 0x268, two);
    nest_quit(&n);
}

/* Names are those of the catalog, and each is where the catalog has it */
static void test_names(const void *data)
{
    Nest n = nest_init(data, "");
    unsigned clocks = 0;

    put(&n, COMMAND, PAUSE);
    for (const Unit *u = n.gen->units; u->name; u++) {
        for (int i = 0; u->kind->clocks[i].name; i++) {
            uint32_t offset = u->base + u->kind->clocks[i].reg;
            g_autofree char *add = g_strdup_printf("%s/%s%s=1", u->name,
                u->prefix, u->kind->clocks[i].name);

            if (offset % GROUP == 0 || offset % GROUP == TRAILER) {
                assert_refused(&n, "nest-add", add, "frame");
                continue;
            }
            put(&n, offset, 0);
            set(&n, "nest-add", add);
            assert_word(&n, offset, 1);
            clocks++;
        }
    }
    g_assert_cmpint(clocks, ==, n.gen->links ? 68 : 60);

    for (const Event *e = n.gen->events; e->name; e++) {
        put(&n, e->offset, 0);
        setf(&n, "nest-add", "%s=2", e->name);
        assert_word(&n, e->offset, 2);
    }
    nest_quit(&n);
}

/* The forms in which an event can be given, alone and as a range */
static void test_synthetic_forms(const void *data)
{
    Nest n = nest_init(data, "");
    const Event *e = n.gen->events;
    g_autofree char *unit = g_strdup(e->name), *list = NULL, *is = NULL;
    char *event = strchr(unit, '/');
    const char *forms[6];

    *event++ = 0;
    forms[0] = g_strdup(e->name);
    forms[1] = g_strdup_printf("nest_%s_imc/%s", unit, event);
    forms[2] = g_strdup_printf("0x%x", e->offset);
    forms[3] = g_strdup_printf("%u", e->offset);
    forms[4] = g_strdup_printf("%s-0x%x", e->name, e->offset);
    forms[5] = g_strdup_printf("0-0x%x", STATUS - 8);
    for (int i = 0; i < ARRAY_SIZE(forms); i++) {
        list = g_strdup_printf("%s=const:%u", forms[i], 3 * e->scale);
        set(&n, "nest-synthetic", list);
        is = get_str(&n, "nest-synthetic");
        g_assert_cmpstr(is, ==, list);
        step(&n, MS);
        assert_word(&n, e->offset, 3 * (i + 1));
        assert_posts(&n, i + 1, i + 1);
        g_free(g_steal_pointer(&list));
        g_free(g_steal_pointer(&is));
        g_free((char *)forms[i]);
    }

    /*
     * The last one was all: words without an event have a scale of 1, and
     * what is not for counters is left alone.
     */
    assert_word(&n, FREE, 3 * e->scale);
    assert_word(&n, STATUS - 8, 3 * e->scale);
    assert_word(&n, n.gen->groups * GROUP, 3 * e->scale);
    assert_word(&n, STATUS, RUNNING);
    assert_word(&n, UAV, n.gen->uav);
    assert_word(&n, n.gen->absent.offset, 0);
    for (unsigned group = 0; group < n.gen->groups; group++) {
        assert_word(&n, group * GROUP, ARRAY_SIZE(forms));
        assert_word(&n, group * GROUP + TRAILER, ARRAY_SIZE(forms));
    }
    if (n.gen->tod) {
        assert_word(&n, TOD, ARRAY_SIZE(forms) * 512000);
    }
    nest_quit(&n);
}

static uint32_t mix(uint32_t h)
{
    h = (h ^ (h >> 16)) * 0x85ebca6bu;
    h = (h ^ (h >> 13)) * 0xc2b2ae35u;
    return h ^ (h >> 16);
}

/* The values: per post, and for rates per microsecond with the chip added */
static void test_synthetic_values(const void *data)
{
    const Gen *gen = data;
    const Event *e = gen->events;
    g_autofree char *args = g_strdup_printf(
        TWO_CHIPS "-global pnv-imc.nest-synthetic=%s=rate:250,"
        "%s=const:1000,%s=hash,0x2000-0x2008=rate:3,0x2010=const:0",
        e[0].name, e[1].name, e[2].name);
    Nest nest[] = { nest_init(gen, args), };
    Nest n[] = { nest[0], nest_of(nest[0].qts, gen, 1) };

    for (unsigned speed = 0; speed < 4; speed += 3) {
        unsigned ms = 1 << speed;

        put(&n[0], SPEED, speed);
        put(&n[1], SPEED, speed);
        for (int chip = 0; chip < 2; chip++) {
            assert_word(&n[chip], e[0].offset, 0);
        }
        for (uint64_t posts = 1; posts < 20; posts++) {
            step(&n[0], ms * MS);
            for (int chip = 0; chip < 2; chip++) {
                uint64_t hash = mix(mix(mix(mix(1) ^ e[2].offset) ^ chip) ^ 0);

                assert_posts(&n[chip], posts, posts * ms);
                assert_word(&n[chip], e[0].offset,
                            posts * (ms * 250000 + chip) / e[0].scale);
                assert_word(&n[chip], e[1].offset, posts * 1000 / e[1].scale);
                assert_word(&n[chip], e[2].offset, posts * hash / e[2].scale);
                assert_word(&n[chip], FREE, posts * (ms * 3000 + chip));
                assert_word(&n[chip], FREE + 8, posts * (ms * 3000 + chip));
                assert_word(&n[chip], FREE + 0x10, 0);
            }
        }
    }
    nest_quit(n);
}

static void test_synthetic_change(const void *data)
{
    Nest n = nest_init(data, "");
    const Event *e = n.gen->events;
    g_autofree char *is = get_str(&n, "nest-synthetic");

    g_assert_cmpstr(is, ==, "");
    setf(&n, "nest-synthetic", "%s=const:%u", e->name, e->scale);
    step(&n, 5 * MS / 2);
    assert_word(&n, e->offset, 2);

    /* What was counted stays, and the next post has the new amount. */
    setf(&n, "nest-synthetic", "%s=const:%u", e->name, 100 * e->scale);
    assert_word(&n, e->offset, 2);
    step(&n, MS / 2);
    assert_word(&n, e->offset, 102);

    /* Of something else */
    setf(&n, "nest-synthetic", "0x%x=const:7", FREE);
    step(&n, MS);
    assert_word(&n, e->offset, 102);
    assert_word(&n, FREE, 7);

    /* Of nothing */
    set(&n, "nest-synthetic", "");
    step(&n, MS);
    assert_word(&n, e->offset, 102);
    assert_word(&n, FREE, 7);

    /* While it is paused, or has failed */
    setf(&n, "nest-synthetic", "0x%x=const:7", FREE);
    put(&n, COMMAND, PAUSE);
    setf(&n, "nest-synthetic", "0x%x=const:8", FREE);
    step(&n, MS);
    put(&n, COMMAND, RESUME);
    put(&n, MODE, 2);
    step(&n, MS);
    setf(&n, "nest-synthetic", "0x%x=const:9", FREE);
    put(&n, MODE, 0);
    assert_word(&n, FREE, 7);
    step(&n, MS);
    assert_word(&n, FREE, 16);
    put(&n, COMMAND, CLEAR);
    assert_word(&n, FREE, 0);
    step(&n, MS);
    assert_word(&n, FREE, 9);

    /* A clock is what it is. */
    setf(&n, "nest-synthetic", "0x%x=const:77", n.gen->cyc);
    step(&n, MS);
    assert_posts(&n, 2, 2);
    nest_quit(&n);
}

/* The time of the host's CPUs that QEMU has taken, in us */
static int64_t cpu_us(const Nest *n)
{
    struct timespec ts;
    clockid_t clock;

    g_assert_cmpint(clock_getcpuclockid(qtest_pid(n->qts), &clock), ==, 0);
    g_assert_cmpint(clock_gettime(clock, &ts), ==, 0);
    return ts.tv_sec * G_USEC_PER_SEC + ts.tv_nsec / 1000;
}

/*
 * As many entries as a list can have, none of which is an event. A guest that
 * changes the speed all the time must not keep QEMU busy for long: 300 stores
 * took 20 seconds when each of them looked up all words.
 */
static void test_synthetic_many(const void *data)
{
    Nest n = nest_init(data, "");
    g_autoptr(GString) list = g_string_new(NULL);
    const unsigned entries = 4096;
    int64_t start;

    for (unsigned i = 0; i < entries; i++) {
        g_string_append_printf(list, "%s0x%x=rate:%u", i ? "," : "",
                               FREE + 8 * i, i + 1);
    }
    set(&n, "nest-synthetic", list->str);
    start = cpu_us(&n);
    for (unsigned i = 0; i < 300; i++) {
        put(&n, SPEED, i % 2);
    }
    g_assert_cmpint(cpu_us(&n) - start, <, 5 * G_USEC_PER_SEC);

    /* The speed is 1 now: a post comes after 2 ms. */
    step(&n, 2 * MS);
    for (unsigned i = 0; i < entries; i += 455) {
        assert_word(&n, FREE + 8 * i, 2000 * (i + 1) + n.chip);
    }
    nest_quit(&n);
}

static void test_synthetic_errors(const void *data)
{
    Nest n = nest_init(data, "");
    const Gen *gen = n.gen;
    const Event *e = gen->events;
    g_autofree char *good = g_strdup_printf("%s=const:%u", e->name, e->scale);
    const char *event = strchr(e->name, '/') + 1;
    struct {
        char *list;
        const char *why;
    } cases[] = {
        { g_strdup("bogus"), "not of the form" },
        { g_strdup("="), "bad event" },
        { g_strdup("=hash"), "bad event" },
        { g_strdup_printf("%s", e->name), "not of the form" },
        { g_strdup_printf("%s,", good), "not of the form" },
        { g_strdup_printf(",%s", good), "not of the form" },
        { g_strdup_printf("mcs9/%s=hash", event), "bad event" },
        { g_strdup_printf("/%s=hash", event), "bad event" },
        { g_strdup_printf("%s=hash", event), "bad event" },
        { g_strdup("mcs01=hash"), "bad event" },
        { g_strdup("mcs01/=hash"), "bad event" },
        { g_strdup("mcs01/PM_NONE=hash"), "bad event" },
        { g_strdup_printf("mcs23/%s=hash", event), "bad event" },
        { g_strdup_printf("%sX=hash", e->name), "bad event" },
        { g_strdup_printf("nest_%s=hash", e->name), "bad event" },
        { g_strdup_printf("mcs01_imc/%s=hash", event), "bad event" },
        { g_strdup_printf("nest_imc/%s=hash", event), "bad event" },
        { g_strdup_printf("0x%x=hash", STATUS), "bad event" },
        { g_strdup("0x40000=hash"), "bad event" },
        { g_strdup("0x100000008=hash"), "bad event" },
        { g_strdup("-8=hash"), "bad event" },
        { g_strdup("0x9=hash"), "a multiple of 8" },
        { g_strdup("12=hash"), "a multiple of 8" },
        { g_strdup("0x10-0x8=hash"), "bad event" },
        { g_strdup("0x0=hash"), "is where the frame" },
        { g_strdup_printf("0x%x-0x%x=hash", TRAILER, GROUP),
          "is where the frame" },
        { g_strdup("0x8-0x14=hash"), "bad event" },
        { g_strdup("0x8-=hash"), "bad event" },
        { g_strdup("0x8=const"), "bad kind" },
        { g_strdup("0x8=const:"), "bad kind" },
        { g_strdup("0x8=const:-1"), "bad kind" },
        { g_strdup("0x8=const:0x10000000000000000"), "bad kind" },
        { g_strdup("0x8=rate:4294967296"), "bad kind" },
        { g_strdup("0x8=rate:1x"), "bad kind" },
        { g_strdup("0x8=hash:1"), "bad kind" },
        { g_strdup("0x8=demo"), "bad kind" },
        /* They change from post to post, but a post of the nest does not. */
        { g_strdup("0x8=noise:10:5"), "no noise and no ramp" },
        { g_strdup("0x10=hash,0x8=ramp:1:2:3"), "no noise and no ramp" },
        { g_strdup("0x8=hash,demo"), "not of the form" },
        { g_strdup("0x8=hash,0x8=hash"), "twice" },
        { g_strdup("0x8-0x20=hash,0x20-0x28=hash"), "twice" },
        { g_strdup_printf("%s=hash,0x%x=hash", e->name, e->offset), "twice" },
    };

    /* An error changes nothing, even if much of the list is right. */
    set(&n, "nest-synthetic", good);
    for (int i = 0; i < ARRAY_SIZE(cases); i++) {
        g_autofree char *is = NULL;

        assert_refused(&n, "nest-synthetic", cases[i].list, cases[i].why);
        is = get_str(&n, "nest-synthetic");
        g_assert_cmpstr(is, ==, good);
        step(&n, MS);
        assert_word(&n, e->offset, i + 1);
        g_free(cases[i].list);
    }
    if (e->offset != 8) {
        assert_word(&n, 8, 0);
    }
    nest_quit(&n);
}

/* Each word of an event that exists and is no clock has a number of its own. */
static void test_demo(const void *data)
{
    const Gen *gen = data;
    Nest n0 = nest_init(gen, TWO_CHIPS "-global pnv-imc.nest-synthetic=demo");
    Nest n1 = nest_of(n0.qts, gen, 1);
    g_autofree Ref *r0 = ref_new(&n0), *r1 = ref_new(&n1);
    g_autofree char *is = get_str(&n0, "nest-synthetic");

    g_assert_cmpstr(is, ==, "demo");
    r0->demo = r1->demo = true;
    ref_update(r0);
    ref_update(r1);
    for (int i = 1; i < 5; i++) {
        step(&n0, i * MS);
        ref_step(r0, i * MS);
        ref_step(r1, i * MS);
        ref_check(r0, &n0);
        ref_check(r1, &n1);
    }
    for (const Event *e = gen->events; e->name; e++) {
        assert_word(&n0, e->offset, 10 * (e->offset / 8));
        assert_word(&n1, e->offset, 10 * (e->offset / 8 + 512));
    }
    assert_word(&n0, FREE, 0);
    assert_word(&n0, gen->absent.offset, 0);

    /* In each ms, so that rates do not depend on the speed */
    put(&n1, SPEED, 3);
    put(&n1, UAV, gen->with_absent);
    step(&n1, 17 * MS);
    for (const Event *e = gen->events; e->name; e++) {
        assert_word(&n0, e->offset, 27 * (e->offset / 8));
        assert_word(&n1, e->offset, 16 * (e->offset / 8 + 512));
    }
    assert_word(&n1, gen->absent.offset, 16 * (gen->absent.offset / 8 + 512));

    set(&n0, "nest-synthetic", "");
    step(&n0, MS);
    assert_word(&n0, gen->events->offset, 27 * (gen->events->offset / 8));
    nest_quit(&n0);
}

static void test_add(const void *data)
{
    Nest n = nest_init(data, "");
    const Gen *gen = n.gen;
    const Event *e = gen->events;
    const char *event = strchr(e[0].name, '/') + 1;
    g_autofree char *commas = g_strnfill(4096, ',');
    struct {
        char *list;
        const char *why;
    } cases[] = {
        { g_strdup("bogus"), "not of the form" },
        { g_strdup("0x8"), "not of the form" },
        { g_strdup("0x8="), "not of the form" },
        { g_strdup("=1"), "not of the form" },
        { g_strdup("0x8=-1"), "not of the form" },
        { g_strdup("0x8=+1"), "not of the form" },
        { g_strdup("0x8= 1"), "not of the form" },
        { g_strdup("0x8=1x"), "not of the form" },
        { g_strdup("0x8=const:1"), "not of the form" },
        { g_strdup("0x8=18446744073709551616"), "not of the form" },
        { g_strdup("0x8-0x10=1"), "not of the form" },
        { g_strdup("0xc=1"), "not of the form" },
        { g_strdup_printf("mcs9/%s=1", event), "not of the form" },
        { g_strdup("mcs01/PM_NONE=1"), "not of the form" },
        { g_strdup_printf("0x%x=1", STATUS), "not of the form" },
        { g_strdup("0x40000=1"), "not of the form" },
        { g_strdup("0=1"), "frame" },
        { g_strdup("0x108=1"), "frame" },
        { g_strdup_printf("0x%x=1", (gen->groups - 1) * GROUP), "frame" },
        { g_strdup_printf("0x%x=1", (gen->groups - 1) * GROUP + TRAILER),
          "frame" },
    };

    /* Once, and at once */
    step(&n, MS);
    setf(&n, "nest-add", "%s=5", e[0].name);
    assert_word(&n, e[0].offset, 5);
    step(&n, MS);
    assert_word(&n, e[0].offset, 5);
    setf(&n, "nest-add", "nest_mcs01_imc/%s=6,0x%x=0x10,0x%x=1", event,
         e[1].offset, FREE);
    assert_word(&n, e[0].offset, 11);
    assert_word(&n, e[1].offset, 16);
    assert_word(&n, FREE, 1);
    set(&n, "nest-add", "");
    assert_refused(&n, "nest-add", commas, "more than 4096 entries");
    assert_refused(&n, "nest-fault", commas, "more than 4096 entries");
    assert_refused(&n, "nest-synthetic", commas, "more than 4096 entries");

    /* To what counts, and while nothing counts */
    setf(&n, "nest-add", "0x%x=1000", gen->cyc);
    assert_word(&n, gen->cyc, cyc(2) + 1000);
    put(&n, COMMAND, PAUSE);
    setf(&n, "nest-add", "0x%x=1000", gen->cyc);
    assert_word(&n, gen->cyc, cyc(2) + 2000);
    put(&n, COMMAND, RESUME);
    step(&n, MS);
    assert_word(&n, gen->cyc, cyc(3) + 2000);
    setf(&n, "nest-add", "%s=3", gen->absent.name);
    assert_word(&n, gen->absent.offset, 3);

    /* The word of the time base on POWER9 is one of OpenCAPI on POWER10 */
    if (gen->tod) {
        assert_refused(&n, "nest-add", "0x748=1", "frame");
    } else {
        set(&n, "nest-add", "0x748=1");
        assert_word(&n, 0x748, 1);
    }

    /* All of it or nothing */
    for (int i = 0; i < ARRAY_SIZE(cases); i++) {
        g_autofree char *first = g_strdup_printf("%s=1,%s", e[0].name,
                                                 cases[i].list);
        g_autofree char *last = g_strdup_printf("%s,%s=1", cases[i].list,
                                                e[0].name);

        assert_refused(&n, "nest-add", cases[i].list, cases[i].why);
        assert_refused(&n, "nest-add", first, cases[i].why);
        assert_refused(&n, "nest-add", last, cases[i].why);
        assert_word(&n, e[0].offset, 11);
        g_free(cases[i].list);
    }
    assert_word(&n, 0, 3);
    assert_word(&n, TRAILER, 3);
    nest_quit(&n);
}

/* Chips know nothing of each other */
static void test_chips(const void *data)
{
    const Gen *gen = data;
    Nest n0 = nest_init(gen, TWO_CHIPS);
    Nest n1 = nest_of(n0.qts, gen, 1);
    uint32_t offset = gen->events->offset;

    step(&n0, MS);
    put(&n1, COMMAND, PAUSE);
    step(&n0, MS);
    assert_posts(&n0, 2, 2);
    assert_posts(&n1, 1, 1);
    put(&n0, SPEED, 1);
    assert_posts(&n1, 1, 1);
    put(&n1, COMMAND, RESUME);
    step(&n0, 4 * MS);
    assert_posts(&n0, 2, 4);
    assert_posts(&n1, 5, 5);
    put(&n1, MODE, 2);
    assert_word(&n0, STATUS, RUNNING);
    assert_word(&n1, STATUS, BAD_MODE);
    put(&n1, MODE, 0);

    set_uav(&n1, gen->with_absent);
    assert_word(&n0, UAV, gen->uav);
    assert_word(&n1, UAV, gen->with_absent);
    setf(&n1, "nest-synthetic", "0x%x=const:1", FREE);
    setf(&n0, "nest-add", "0x%x=1", offset);
    put(&n1, offset, 2);
    step(&n0, 2 * MS);
    assert_word(&n0, offset, 1);
    assert_word(&n1, offset, 2);
    assert_word(&n0, FREE, 0);
    assert_word(&n1, FREE, 2);
    put(&n0, COMMAND, CLEAR);
    assert_posts(&n0, 0, 0);
    assert_posts(&n1, 7, 7);
    assert_word(&n1, offset, 2);
    nest_quit(&n0);
}

/* ------------------------------------------------------------------------ */
/* Where HOMER is */

#define FDT_ADDR        0x01000000
#define FDT_MAX         (1 * MiB)
#define FDT_BEGIN_NODE  1
#define FDT_END_NODE    2
#define FDT_PROP        3
#define FDT_END         9

/* Does the device tree reserve this HOMER? */
static bool is_reserved(QTestState *qts, uint64_t homer)
{
    g_autofree char *name = g_strdup_printf("ibm,homer-image@%" PRIx64, homer);
    size_t name_len = strlen(name) + 1, size = qtest_readl(qts, FDT_ADDR + 4);
    g_autofree char *fdt = g_malloc0(size + 64);
    char *strings;

    g_assert_cmphex(qtest_readl(qts, FDT_ADDR), ==, 0xd00dfeed);
    g_assert_cmpint(size, <, FDT_MAX);
    qtest_memread(qts, FDT_ADDR, fdt, size);
    strings = fdt + ldl_be_p(fdt + 12);
    for (size_t i = 0; i + name_len < size; i += 4) {
        if (!memcmp(fdt + i, name, name_len)) {
            const char *prop = fdt + i + ROUND_UP(name_len, 4);

            g_assert_cmpint(ldl_be_p(prop), ==, FDT_PROP);
            g_assert_cmpint(ldl_be_p(prop + 4), ==, 16);
            g_assert_cmpstr(strings + ldl_be_p(prop + 8), ==, "reg");
            g_assert_cmphex(ldq_be_p(prop + 12), ==, homer);
            g_assert_cmphex(ldq_be_p(prop + 20), ==, HOMER_SIZE);
            /* No more, above all no "no-map": Linux has to map it */
            g_assert_cmpint(ldl_be_p(prop + 28), ==, FDT_END_NODE);
            return true;
        }
    }
    return false;
}

typedef struct Memory {
    unsigned chips;
    unsigned mib;
    unsigned of_chip[4];        /* RAM of each, in MiB */
} Memory;

/* Chip 0 has at least 1 GiB, which is what firmware needs */
static const Memory memories[] = {
    { 1, 1024, { 1024 } },
    { 1, 1039, { 1039 } },
    { 1, 1100, { 1100 } },
    { 2, 1024, { 1024, 0 } },
    { 2, 1087, { 1024, 63 } },
    { 2, 1088, { 1024, 64 } },
    { 2, 2102, { 1051, 1051 } },
    { 4, 1211, { 1024, 62, 62, 62 } },
    { 4, 1225, { 1024, 67, 67, 67 } },
    { 4, 4160, { 1040, 1040, 1040, 1040 } },
};

static void test_homer(const void *data)
{
    const Gen *gen = data;

    for (const Memory *m = memories; m < memories + ARRAY_SIZE(memories); m++) {
        g_autofree char *args = g_strdup_printf(
            "-smp %u,sockets=%u,cores=1,threads=1 -m %uM", m->chips, m->chips,
            m->mib);
        Nest n = nest_init(gen, args);
        uint64_t start = 0, homer0 = n.homer;
        Nest chip[4];

        for (unsigned i = 0; i < m->chips; i++) {
            uint64_t end = start + m->of_chip[i] * MiB;
            uint64_t ought = m->of_chip[i] >= 64
                ? QEMU_ALIGN_DOWN(end, 16 * MiB) - HOMER_SIZE
                : homer0 - i * HOMER_SIZE;

            chip[i] = nest_of(n.qts, gen, i);
            g_assert_cmphex(chip[i].homer, ==, ought);
            g_assert_cmphex(qtest_readq(n.qts, xscom(gen, i, gen->pba + 4)),
                            ==, 0x300000);
            g_assert_cmphex(chip[i].homer % HOMER_SIZE, ==, 0);
            /* Above firmware, kernel and initial RAM disk, and in RAM */
            g_assert_cmphex(chip[i].homer, >=, 0x34000000);
            g_assert_cmphex(chip[i].homer + HOMER_SIZE, <=, m->mib * MiB);
            for (unsigned j = 0; j < i; j++) {
                g_assert_cmphex(chip[i].homer, !=, chip[j].homer);
            }
            g_assert_true(is_reserved(n.qts, chip[i].homer));
            /* The OCC has stored its tables there, which begin with "valid" */
            g_assert_cmpuint(qtest_readb(n.qts, chip[i].homer + OCC_TABLES),
                             ==, 1);
            start = end;
        }

        /* They are different memory, with an engine each */
        for (unsigned i = 0; i < m->chips; i++) {
            put(&chip[i], COMMAND, i ? PAUSE : RESUME);
            qtest_writeq(n.qts, chip[i].homer + 0x1000, i + 1);
        }
        step(&n, MS);
        for (unsigned i = 0; i < m->chips; i++) {
            assert_word(&chip[i], STATUS, i ? PAUSED : RUNNING);
            assert_posts(&chip[i], !i, !i);
            g_assert_cmphex(qtest_readq(n.qts, chip[i].homer + 0x1000), ==,
                            i + 1);
        }
        nest_quit(&n);
    }
}

/* Without imc=on, all is as it was */
/* What "info mtree" says of the first region with a name */
static char *region_line(QTestState *qts, const char *name)
{
    g_autofree char *tree = qtest_hmp(qts, "info mtree");
    g_auto(GStrv) lines = g_strsplit(tree, "\n", 0);

    for (int i = 0; lines[i]; i++) {
        if (g_str_has_suffix(g_strchomp(lines[i]), name)) {
            return g_strdup(lines[i]);
        }
    }
    g_assert_not_reached();
}

static void assert_priority(QTestState *qts, const char *region, int priority)
{
    g_autofree char *line = region_line(qts, region);
    g_autofree char *text = g_strdup_printf("(prio %d, ", priority);

    g_assert_nonnull(strstr(line, text));
}

/* HOMER is over the RAM; without the option, regions are as ever. */
static void test_priority(const void *data)
{
    const Gen *gen = data;

    for (int on = 0; on < 2; on++) {
        QTestState *qts = qtest_initf("-M %s,imc=%s -nodefaults " TWO_CHIPS,
                                      gen->machine, on ? "on" : "off");

        assert_priority(qts, ": pnv.ram", 0);
        assert_priority(qts, ": homer-chip0-memory", on);
        assert_priority(qts, ": homer-chip1-memory", on);
        qtest_quit(qts);
    }
}

/*
 * The flash has the image with a catalog only where there are counters: with
 * imc=off, firmware that finds a catalog would announce some that are dead.
 */
static void test_flash(const void *data)
{
    static const char *const names[] = { "pnv-pnor.bin", "pnv-pnor-imc.bin" };
    const Gen *gen = data;
    g_autofree char *dir = g_dir_make_tmp("pnv-imc-test.XXXXXX", NULL);
    g_autofree char *bytes = g_malloc0(1 * MiB);
    char *files[2];

    for (int on = 0; on < 2; on++) {
        files[on] = g_build_filename(dir, names[on], NULL);
        g_assert_true(g_file_set_contents(files[on], bytes, 1 * MiB, NULL));
    }
    for (int on = 0; on < 2; on++) {
        QTestState *qts = qtest_initf("-M %s,imc=%s -L %s -nic none",
                                      gen->machine, on ? "on" : "off", dir);
        QDict *rsp = qtest_qmp(qts, "{'execute': 'query-block'}");
        QListEntry *entry;
        unsigned found = 0;

        QLIST_FOREACH_ENTRY(qdict_get_qlist(rsp, "return"), entry) {
            QDict *drive = qobject_to(QDict, qlist_entry_obj(entry));

            if (qdict_haskey(drive, "inserted")) {
                drive = qdict_get_qdict(drive, "inserted");
                g_assert_cmpstr(qdict_get_str(drive, "file"), ==, files[on]);
                found++;
            }
        }
        g_assert_cmpint(found, ==, 1);
        qobject_unref(rsp);
        qtest_quit(qts);
    }
    for (int on = 0; on < 2; on++) {
        unlink(files[on]);
        g_free(files[on]);
    }
    rmdir(dir);
}

static void test_off(const void *data)
{
    const Gen *gen = data;

    for (int explicit = 0; explicit < 2; explicit++) {
        QTestState *qts = qtest_initf("-M %s%s -nodefaults " TWO_CHIPS,
                                      gen->machine,
                                      explicit ? ",imc=off" : "");

        for (unsigned chip = 0; chip < 2; chip++) {
            Nest n = nest_of(qts, gen, chip);
            g_autofree char *path = imc_path(&n);
            QDict *rsp = qtest_qmp(qts, "{'execute': 'qom-list', 'arguments':"
                                   " {'path': %s}}", path);

            g_assert_true(qdict_haskey(rsp, "error"));
            qobject_unref(rsp);
            g_assert_cmphex(n.homer, ==, gen->stock_homer + chip * HOMER_SIZE);
            g_assert_false(is_reserved(qts, n.homer));

            /* Memory, from its first word */
            assert_word(&n, STATUS, 0);
            step(&n, 2 * MS);
            for (uint32_t offset = 0; offset < AREA_SIZE; offset += 0x3fc8) {
                assert_word(&n, offset, 0);
                put(&n, offset, 0x1234567800000000 + offset);
            }
            put(&n, COMMAND, CLEAR);
            put(&n, STATUS, 0);
            step(&n, 2 * MS);
            assert_word(&n, COMMAND, CLEAR);
            assert_word(&n, STATUS, 0);
            for (uint32_t offset = 0; offset < AREA_SIZE; offset += 0x3fc8) {
                assert_word(&n, offset, 0x1234567800000000 + offset);
            }
        }
        qtest_quit(qts);
    }
}

/* ------------------------------------------------------------------------ */
/* The command line */

/* A QEMU that ends if it does start, as there is no such snapshot */
static char *start_command(const char *args)
{
    return g_strdup_printf("%s -display none -nodefaults -accel qtest "
                           "-loadvm none " SMALL_FLASH "%s",
                           getenv("QTEST_QEMU_BINARY"), args);
}

/* QEMU does not start, and says what and why in one line */
static void assert_no_start(const char *args, const char *what,
                            const char *why)
{
    g_autofree char *cmd = start_command(args);
    g_autofree char *out = NULL, *err = NULL;
    char *eol;
    int status;

    g_assert(g_spawn_command_line_sync(cmd, &out, &err, &status, NULL));
    g_assert(WIFEXITED(status));
    g_assert_cmpint(WEXITSTATUS(status), ==, 1);
    if (!strstr(err, what) || !strstr(err, why)) {
        g_test_message("%s: %s", args, err);
    }
    g_assert_nonnull(strstr(err, what));
    g_assert_nonnull(strstr(err, why));
    eol = strchr(err, '\n');
    g_assert_nonnull(eol);
    if (g_str_has_prefix(err, "==")) {  /* AddressSanitizer warns */
        eol = strchr(eol + 1, '\n');
        g_assert_nonnull(eol);
    }
    g_assert_cmpstr(eol, ==, "\n");
}

/* What QEMU says when it starts; it ends because there is no such snapshot. */
static char *start_messages(const char *args)
{
    g_autofree char *cmd = start_command(args);
    char *err = NULL;
    int status;

    g_assert(g_spawn_command_line_sync(cmd, NULL, &err, &status, NULL));
    g_assert(WIFEXITED(status));
    g_assert_cmpint(WEXITSTATUS(status), ==, 1);
    return err;
}

/* Each chip with too little memory for Linux's core_imc is named. */
static void test_memory(const void *data)
{
    static const struct {
        unsigned chips;
        unsigned mib;
        const char *warning;        /* of the last chip, or NULL */
    } cases[] = {
        { 1, 1024, NULL },
        { 2, 1024, "chip 1 has 0 MiB" },
        { 2, 1088, "chip 1 has 64 MiB" },
        { 2, 1279, "chip 1 has 255 MiB" },
        { 2, 1280, NULL },
        { 4, 1024 + 3 * 255, "chip 3 has 255 MiB" },
        { 4, 1024 + 3 * 256, NULL },
    };
    const Gen *gen = data;

    for (int i = 0; i < ARRAY_SIZE(cases); i++) {
        for (int on = 0; on < 2; on++) {
            g_autofree char *args = g_strdup_printf(
                "-M %s,imc=%s -smp %u,sockets=%u,cores=1 -m %uM", gen->machine,
                on ? "on" : "off", cases[i].chips, cases[i].chips,
                cases[i].mib);
            g_autofree char *said = start_messages(args);

            if (on && cases[i].warning) {
                g_assert_nonnull(strstr(said, cases[i].warning));
                g_assert_null(strstr(said, "chip 0"));
            } else {
                g_assert_null(strstr(said, "MiB"));
            }
        }
    }
}

static void test_options(const void *data)
{
    const Gen *gen = data;
    static const struct {
        const char *args;
        const char *why;
    } cases[] = {
        { "nest-synthetic=bogus",
          "synthetic event 'bogus' is not of the form EVENT=KIND" },
        { "nest-synthetic=mcs01/PM_NONE=hash",
          "synthetic event 'mcs01/PM_NONE=hash': bad event" },
        { "nest-synthetic=0x8=two", "synthetic event '0x8=two': bad kind" },
        { "nest-add=0x8=1", "only be set while the machine exists" },
        { "nest-fault=0=late", "only be set while the machine exists" },
        { "uav=0", "uav must not be 0" },
        { "uav=all", "uav" },
        { "status=1", "status" },
        { "speed=1", "speed" },
        { "catalog=/nonexistent", "could not open '/nonexistent': " },
        { "catalog=/", "could not read '/': " },
    };
    g_autofree char *args = NULL;
    Nest n;

    for (int i = 0; i < ARRAY_SIZE(cases); i++) {
        g_autofree char *cmd = g_strdup_printf(
            "-M %s,imc=on -global pnv-imc.%s", gen->machine, cases[i].args);

        assert_no_start(cmd, ": ", cases[i].why);
    }

    args = g_strdup_printf("-global pnv-imc.uav=0x%" PRIx64, gen->with_absent);
    n = nest_init(gen, args);
    assert_boot_state(&n, gen->with_absent);
    nest_quit(&n);
}

static void test_power8(void)
{
    assert_no_start("-M powernv8,imc=on", "powernv8", "imc");
}

/*
 * A catalog of one unit with one event: just as much of a flattened device
 * tree as that needs
 */
typedef struct Catalog {
    uint32_t type;
    uint32_t base;
    uint32_t reg;
    const char *event;
    const char *scale;
    const char *event_scale;
    uint32_t events;            /* a phandle; that of the group is 1 */
    const char *other;          /* a unit with the same words */
    unsigned more_events;       /* just as the first one */
    unsigned more_units;
    uint32_t offset;            /* of the nest's area and its control block: */
    uint32_t cb_offset;         /* 0 if the catalog does not say */
} Catalog;

#define CATALOG_DEFAULT                                                     \
    .type = 0x10, .base = 0x8, .reg = 0x78, .event = "CYC", .events = 1

typedef struct Fdt {
    GByteArray *tree;
    GByteArray *strings;
} Fdt;

static void fdt_u32(GByteArray *array, uint32_t value)
{
    uint8_t bytes[4];

    stl_be_p(bytes, value);
    g_byte_array_append(array, bytes, sizeof(bytes));
}

static void fdt_bytes(GByteArray *array, const void *data, size_t len)
{
    static const uint8_t zeros[8];

    g_byte_array_append(array, data, len);
    g_byte_array_append(array, zeros, ROUND_UP(len, 4) - len);
}

static void fdt_begin(Fdt *f, const char *name)
{
    fdt_u32(f->tree, FDT_BEGIN_NODE);
    fdt_bytes(f->tree, name, strlen(name) + 1);
}

static void fdt_end(Fdt *f)
{
    fdt_u32(f->tree, FDT_END_NODE);
}

static void fdt_prop(Fdt *f, const char *name, const void *data, size_t len)
{
    fdt_u32(f->tree, FDT_PROP);
    fdt_u32(f->tree, len);
    fdt_u32(f->tree, f->strings->len);
    fdt_bytes(f->tree, data, len);
    g_byte_array_append(f->strings, (const void *)name, strlen(name) + 1);
}

static void fdt_prop_str(Fdt *f, const char *name, const char *value)
{
    if (value) {
        fdt_prop(f, name, value, strlen(value) + 1);
    }
}

static void fdt_prop_cells(Fdt *f, const char *name, uint32_t first,
                           uint32_t second)
{
    uint8_t bytes[8];

    stl_be_p(bytes, first);
    stl_be_p(bytes + 4, second);
    fdt_prop(f, name, bytes, second ? 8 : 4);
}

static void catalog_unit(Fdt *f, const Catalog *c, const char *name)
{
    fdt_begin(f, name);
    fdt_prop_str(f, "compatible", "ibm,imc-counters");
    fdt_prop_cells(f, "type", c->type, 0);
    fdt_prop_cells(f, "reg", c->base, 0x100);
    if (c->offset) {
        fdt_prop_cells(f, "offset", c->offset, 0);
        fdt_prop_cells(f, "cb_offset", c->cb_offset, 0);
    }
    fdt_prop_str(f, "events-prefix", "PM_PB_");
    fdt_prop_str(f, "scale", c->scale);
    if (c->events) {
        fdt_prop_cells(f, "events", c->events, 0);
    }
    fdt_end(f);
}

static GByteArray *catalog_new(const Catalog *c)
{
    Fdt f = { g_byte_array_new(), g_byte_array_new() };
    GByteArray *dtb = g_byte_array_new();
    static const uint8_t no_reservation[16];

    fdt_begin(&f, "");
    fdt_prop_str(&f, "compatible", "ibm,opal-in-memory-counters");
    fdt_begin(&f, "group");
    fdt_prop_cells(&f, "phandle", 1, 0);
    for (unsigned i = 0; i <= c->more_events; i++) {
        fdt_begin(&f, "event@0");
        fdt_prop_str(&f, "event-name", c->event);
        fdt_prop_str(&f, "scale", c->event_scale);
        fdt_prop_cells(&f, "reg", c->reg, 8);
        fdt_end(&f);
    }
    fdt_end(&f);
    for (unsigned i = 0; i <= c->more_units; i++) {
        catalog_unit(&f, c, "powerbus0@8");
    }
    if (c->other) {
        catalog_unit(&f, c, c->other);
    }
    fdt_end(&f);
    fdt_u32(f.tree, FDT_END);

    fdt_u32(dtb, 0xd00dfeed);
    fdt_u32(dtb, 56 + f.tree->len + f.strings->len);
    fdt_u32(dtb, 56);                       /* tree */
    fdt_u32(dtb, 56 + f.tree->len);         /* strings */
    fdt_u32(dtb, 40);                       /* reserved memory: none */
    fdt_u32(dtb, 17);                       /* version */
    fdt_u32(dtb, 16);
    fdt_u32(dtb, 0);
    fdt_u32(dtb, f.strings->len);
    fdt_u32(dtb, f.tree->len);
    fdt_bytes(dtb, no_reservation, sizeof(no_reservation));
    g_byte_array_append(dtb, f.tree->data, f.tree->len);
    g_byte_array_append(dtb, f.strings->data, f.strings->len);
    g_byte_array_unref(f.tree);
    g_byte_array_unref(f.strings);
    return dtb;
}

static char *save(const void *data, size_t len)
{
    char *file;
    int fd = g_file_open_tmp("pnv-imc-XXXXXX", &file, NULL);

    g_assert(fd >= 0);
    close(fd);
    g_assert(g_file_set_contents(file, data, len, NULL));
    return file;
}

static char *catalog_save(const Catalog *c)
{
    g_autoptr(GByteArray) dtb = catalog_new(c);

    return save(dtb->data, dtb->len);
}

static void test_catalog(void)
{
    const Gen *gen = &gens[0];
    static const struct {
        Catalog catalog;
        uint32_t offset;
        uint32_t scale;
        unsigned groups;
    } cases[] = {
        { { CATALOG_DEFAULT }, 0x80, 1, 1 },
        /* What is left of the division by 3 and by 7 is carried, too */
        { { CATALOG_DEFAULT, .scale = "3" }, 0x80, 3, 1 },
        { { CATALOG_DEFAULT, .scale = "3", .event_scale = "7" }, 0x80, 7, 1 },
        { { CATALOG_DEFAULT, .scale = "4294967295" }, 0x80, UINT32_MAX, 1 },
        /* The last word of the last group, and of the area */
        { { CATALOG_DEFAULT, .base = 0x110 + 0x88 }, 0x210, 1, 2 },
        { { CATALOG_DEFAULT, .base = 0x3fb78 }, 0x3fbf0, 1, 960 },
        /* Of another kind of counters, or in no event at all */
        { { CATALOG_DEFAULT, .type = 4, .reg = 0x90 }, 0x98, 0, 0 },
        { { CATALOG_DEFAULT, .type = 1, .reg = 0x90 }, 0x98, 0, 0 },
        { { CATALOG_DEFAULT, .type = 2, .reg = 0x4000c, .event = NULL,
            .scale = "0" }, 0x80, 0, 0 },
        /* Shared with a unit that exists, or that does not by default */
        { { CATALOG_DEFAULT, .other = "phb0@8" }, 0x80, 0, 1 },
        { { CATALOG_DEFAULT, .other = "mba0@8" }, 0x80, 0, 1 },
        { { CATALOG_DEFAULT, .offset = 0x180000, .cb_offset = 0x3fc00 },
          0x80, 1, 1 },
    };

    for (int i = 0; i < ARRAY_SIZE(cases); i++) {
        g_autofree char *file = catalog_save(&cases[i].catalog);
        g_autofree char *args = g_strdup_printf("-global pnv-imc.catalog=%s",
                                                file);
        Nest n = nest_init(gen, args);

        unlink(file);
        for (unsigned posts = 1; posts < 10; posts++) {
            uint32_t scale = cases[i].scale;
            uint32_t count = 0;

            if (scale) {
                count = posts * 2000000 / scale;
            }
            step(&n, MS);
            assert_word(&n, cases[i].offset, count);
            for (unsigned group = 0; group < cases[i].groups; group++) {
                if (!group || group == cases[i].groups - 1) {
                    assert_word(&n, group * GROUP, posts);
                    assert_word(&n, group * GROUP + TRAILER, posts);
                }
            }
            if (cases[i].groups < 10) {
                assert_word(&n, cases[i].groups * GROUP, 0);
                assert_word(&n, cases[i].groups * GROUP + TRAILER, 0);
            }
        }
        if (cases[i].scale) {
            set(&n, "nest-add", "powerbus0/PM_PB_CYC=1");
            assert_word(&n, cases[i].offset,
                        9 * 2000000 / cases[i].scale + 1);
        } else if (!cases[i].groups) {
            assert_refused(&n, "nest-add", "powerbus0/PM_PB_CYC=1",
                           "not of the form");
        }
        nest_quit(&n);
    }
}

/* Names of units and events may have dashes, also in a range. */
static void test_dashes(void)
{
    g_autofree char *file = catalog_save(&(Catalog) {
        CATALOG_DEFAULT, .event = "L2-HIT", .other = "my-accel@8",
    });
    g_autofree char *args = g_strdup_printf("-global pnv-imc.catalog=%s", file);
    Nest n = nest_init(&gens[0], args);

    unlink(file);
    set(&n, "nest-synthetic", "my-accel/PM_PB_L2-HIT=const:5");
    step(&n, MS);
    assert_word(&n, 0x80, 5);
    set(&n, "nest-synthetic",
        "my-accel/PM_PB_L2-HIT-powerbus0/PM_PB_L2-HIT=const:7");
    step(&n, MS);
    assert_word(&n, 0x80, 12);
    assert_refused(&n, "nest-synthetic", "my-accel/PM_PB_L2=const:1",
                   "bad event");
    assert_refused(&n, "nest-synthetic", "my-accel/PM_PB_L2-HIT-0x78=const:1",
                   "bad event");
    nest_quit(&n);
}

static void assert_bad_catalog(char *file, const char *why)
{
    g_autofree char *args = g_strdup_printf(
        "-M powernv10,imc=on -global pnv-imc.catalog=%s", file);

    assert_no_start(args, file, why);
    unlink(file);
    g_free(file);
}

static void test_bad_catalogs(void)
{
    static const struct {
        Catalog catalog;
        const char *why;
    } cases[] = {
        { { CATALOG_DEFAULT, .reg = 0x3fbf8 },
          "at 0x3fc00, but must be at a multiple of 8 below 0x3fc00" },
        { { CATALOG_DEFAULT, .reg = 0xfffffff8 }, "multiple of 8 below" },
        { { CATALOG_DEFAULT, .base = 0xfffffff8, .reg = 0xfffffff8 },
          "multiple of 8 below" },
        { { CATALOG_DEFAULT, .reg = 4 }, "multiple of 8 below" },
        { { CATALOG_DEFAULT, .event = NULL }, "no reg or event-name" },
        { { CATALOG_DEFAULT, .event = "" }, "no reg or event-name" },
        { { CATALOG_DEFAULT, .offset = 0x190000, .cb_offset = 0x3fc00 },
          "has offset 0x190000, this machine's is 0x180000" },
        { { CATALOG_DEFAULT, .offset = 0x180000, .cb_offset = 0x3fd00 },
          "has cb_offset 0x3fd00, this machine's is 0x3fc00" },
        { { CATALOG_DEFAULT, .events = 0 }, "no reg or events" },
        { { CATALOG_DEFAULT, .events = 2 }, "events which do not exist" },
        { { CATALOG_DEFAULT, .scale = "0" }, "not a positive integer" },
        { { CATALOG_DEFAULT, .scale = "" }, "not a positive integer" },
        { { CATALOG_DEFAULT, .scale = "-1" }, "not a positive integer" },
        { { CATALOG_DEFAULT, .scale = " 1" }, "not a positive integer" },
        { { CATALOG_DEFAULT, .scale = "1.5" }, "not a positive integer" },
        { { CATALOG_DEFAULT, .scale = "4294967296" },
          "not a positive integer" },
        { { CATALOG_DEFAULT, .scale = "1", .event_scale = "x" },
          "scale 'x' of event CYC of unit powerbus0@8 is not a positive" },
        /* Of cores and threads: CPMC1 to 4 of a line */
        { { CATALOG_DEFAULT, .type = 4, .reg = 0x2010 },
          "at 0x2018, but must be at a multiple of 8 below 0x2000" },
        { { CATALOG_DEFAULT, .type = 1, .reg = 0x11 }, "multiple of 8 below" },
        { { CATALOG_DEFAULT, .type = 4, .reg = 8 }, "only dwords 3 to 6" },
        { { CATALOG_DEFAULT, .type = 1, .reg = 0x30 }, "only dwords 3 to 6" },
        { { CATALOG_DEFAULT, .type = 1, .event = NULL, .reg = 0x10 },
          "no reg or event-name" },
        { { CATALOG_DEFAULT, .type = 4, .scale = "0", .reg = 0x10 },
          "not a positive integer" },
        { { CATALOG_DEFAULT, .type = 4, .reg = 0x10, .other = "core@8" },
          "are both at 0x18" },
        { { CATALOG_DEFAULT, .type = 1, .reg = 0x18, .other = "thread@8" },
          "are both at 0x20" },
        /* 1024 * 16 are the limit: see test_most_events() */
        { { CATALOG_DEFAULT, .more_events = 1023, .more_units = 16 },
          "has more than 16384 events" },
    };
    g_autoptr(GByteArray) good = catalog_new(&(Catalog) { CATALOG_DEFAULT });
    g_autofree char *big = g_malloc0(256 * KiB + 1);
    const char *not_a_tree = "is not a compiled device tree of up to 256 KiB";
    char *file;

    for (int i = 0; i < ARRAY_SIZE(cases); i++) {
        assert_bad_catalog(catalog_save(&cases[i].catalog), cases[i].why);
    }

    /* A name, nothing, something else, a part, and too much */
    assert_bad_catalog(save("", 0), not_a_tree);
    assert_bad_catalog(save("/dts-v1/; / { };", 16), not_a_tree);
    assert_bad_catalog(save(good->data, 39), not_a_tree);
    assert_bad_catalog(save(good->data, good->len - 1), not_a_tree);
    memcpy(big, good->data, good->len);
    assert_bad_catalog(save(big, 256 * KiB + 1), not_a_tree);
    /* Much more than fits into memory: QEMU must not try to read all of it. */
    file = save(good->data, good->len);
    if (!truncate(file, TiB)) {
        assert_bad_catalog(file, not_a_tree);
    } else {
        g_test_message("no file of 1 TiB here: %s", strerror(errno));
        unlink(file);
        g_free(file);
    }
    /* Of version 3: a root with a name is none */
    stl_be_p(big + 20, 3);
    stl_be_p(big + 24, 2);
    assert_bad_catalog(save(big, good->len), not_a_tree);
}

static void test_most_events(void)
{
    g_autofree char *file = catalog_save(&(Catalog) {
        CATALOG_DEFAULT, .more_events = 1023, .more_units = 15,
    });
    QTestState *qts = qtest_initf(
        "-M powernv10,imc=on -global pnv-imc.catalog=%s", file);

    qtest_quit(qts);
    unlink(file);
}

/*
 * A reader of the frames can be shown each trouble that they are for: a group
 * in the middle of a post, and one whose posts do not come.
 */
static void test_fault(const void *data)
{
    const Gen *gen = data;
    Nest n = nest_init(gen, "");
    /* Data in the first half of group 0, and in the second one */
    const uint32_t first = 8, second = 0xf8;
    uint64_t a, b;
    g_autofree char *all = g_strdup_printf("0-%u=torn", gen->groups - 1);
    g_autofree char *behind = g_strdup_printf("%u=torn", gen->groups);
    g_autofree char *is = NULL;

    /* All scales divide this. */
    setf(&n, "nest-synthetic", "0x%x=const:65536,0x%x=const:65536", first,
         second);
    step(&n, MS);
    a = get(&n, first);
    b = get(&n, second);
    g_assert_cmpuint(a, >, 0);
    g_assert_cmpuint(b, >, 0);
    step(&n, 4 * MS);
    set(&n, "nest-fault", "0=torn");
    for (unsigned posts = 5; posts < 8; posts++) {
        assert_word(&n, 0, posts);
        assert_word(&n, TRAILER, posts - 1);
        assert_word(&n, first, posts * a);
        assert_word(&n, second, (posts - 1) * b);
        assert_word(&n, GROUP, posts);
        assert_word(&n, GROUP + TRAILER, posts);
        step(&n, MS);
    }
    set(&n, "nest-fault", "0=late");
    for (unsigned posts = 8; posts < 11; posts++) {
        assert_word(&n, 0, 8);
        assert_word(&n, TRAILER, 8);
        assert_word(&n, first, 8 * a);
        assert_word(&n, second, 8 * b);
        assert_word(&n, GROUP, posts);
        step(&n, MS);
    }
    /* A byte that is stored as it is changes nothing, also of what is late */
    qtest_writeb(n.qts, n.area + second, 0);
    assert_word(&n, second, 8 * b);
    /* A store is seen, and what was not posted comes in the end */
    put(&n, first, 1000);
    assert_word(&n, first, 1000);
    assert_refused(&n, "nest-fault", behind, "GROUP=torn");
    assert_refused(&n, "nest-fault", "0=gone", "GROUP=torn");
    assert_refused(&n, "nest-fault", "1-0=late", "GROUP=torn");
    assert_refused(&n, "nest-fault", "0", "GROUP=torn");
    assert_refused(&n, "nest-fault", "0=torn,", "GROUP=torn");
    is = get_str(&n, "nest-fault");
    g_assert_cmpstr(is, ==, "0=late");
    assert_word(&n, 0, 8);
    set(&n, "nest-fault", "");
    assert_word(&n, 0, 11);
    assert_word(&n, TRAILER, 11);
    assert_word(&n, first, 1000);
    assert_word(&n, second, 11 * b);

    /* All of them; with no post, nothing is torn yet. Clear clears. */
    set(&n, "nest-fault", all);
    put(&n, COMMAND, 3);
    for (unsigned i = 0; i < gen->groups; i++) {
        assert_word(&n, i * GROUP, 0);
        assert_word(&n, i * GROUP + TRAILER, 0);
    }
    step(&n, MS);
    for (unsigned i = 0; i < gen->groups; i++) {
        assert_word(&n, i * GROUP, 1);
        assert_word(&n, i * GROUP + TRAILER, 0);
    }
    nest_quit(&n);
}

/*
 * The second half of a torn group stays what it was a post ago, whatever
 * changes; so does its time.
 */
static void test_fault_torn(const void *data)
{
    const Gen *gen = data;
    Nest n = nest_init(gen, "");
    const uint32_t second = 0xf8;
    const char *const made_up[] = { "", "0xf8=const:131072", "0xf8=rate:1" };
    uint64_t uav = get(&n, UAV), b, was;

    set(&n, "nest-synthetic", made_up[1]);
    step(&n, MS);
    b = get(&n, second);
    set(&n, "nest-fault", "0=torn,6=torn");
    for (unsigned posts = 2; posts < 6; posts++) {
        step(&n, MS);
        assert_word(&n, TRAILER, posts - 1);
        assert_word(&n, second, (posts - 1) * b);
        put(&n, UAV, gen->with_absent);
        assert_word(&n, second, (posts - 1) * b);
        put(&n, UAV, uav);
        assert_word(&n, second, (posts - 1) * b);
        if (gen->tod) {
            assert_word(&n, TOD, (posts - 1) * 512000);
        }
    }
    /* Several posts at once, and another number of events in the next */
    step(&n, 3 * MS);
    was = 7 * b;
    for (unsigned i = 0; i < ARRAY_SIZE(made_up); i++) {
        set(&n, "nest-synthetic", made_up[i]);
        assert_word(&n, second, was);
    }
    set(&n, "nest-synthetic", "");
    step(&n, MS);
    assert_word(&n, second, 8 * b);
    if (gen->tod) {
        assert_word(&n, TOD, 8 * 512000);
        /* The time stands still with the posts. */
        put(&n, COMMAND, PAUSE);
        step(&n, 10 * MS);
        assert_word(&n, TOD, 8 * 512000);
        put(&n, COMMAND, RESUME);
        step(&n, MS);
        assert_word(&n, TOD, 9 * 512000);
        step(&n, MS);
        assert_word(&n, TOD, 20 * 512000);
    }
    /* A store is seen in any half. */
    put(&n, second, 77);
    assert_word(&n, second, 77);
    put(&n, COMMAND, CLEAR);
    assert_word(&n, second, 0);
    nest_quit(&n);
}

/*
 * A late group keeps its words until Clear or a reset, which also clear those.
 * Asking for the same fault again changes nothing.
 */
static void test_fault_clear(const void *data)
{
    const Gen *gen = data;
    Nest n = nest_init(gen, "");
    g_autofree char *is = NULL;

    setf(&n, "nest-synthetic", "0x8=const:65536");
    step(&n, 3 * MS);
    set(&n, "nest-fault", "0=late");
    assert_word(&n, 0, 3);
    g_assert_cmpuint(get(&n, 8), >, 0);
    put(&n, COMMAND, 3);
    for (unsigned i = 0; i < GROUP; i += 8) {
        assert_word(&n, i, 0);
    }

    step(&n, 2 * MS);
    set(&n, "nest-fault", "0-1=late");
    for (unsigned i = 0; i < GROUP; i += 8) {
        assert_word(&n, i, 0);
    }
    assert_word(&n, GROUP, 2);
    assert_word(&n, GROUP + TRAILER, 2);

    qtest_system_reset(n.qts);
    step(&n, MS);
    assert_word(&n, 0, 0);
    assert_word(&n, GROUP, 0);
    assert_word(&n, GROUP + TRAILER, 0);
    is = get_str(&n, "nest-fault");
    g_assert_cmpstr(is, ==, "0-1=late");
    set(&n, "nest-fault", "");
    assert_word(&n, 0, 1);
    assert_word(&n, GROUP, 1);
    nest_quit(&n);
}

/* ------------------------------------------------------------------------ */
/* Anything at all; use --seed to repeat */

static uint64_t monkey_value(uint64_t below)
{
    uint64_t any = (uint64_t)g_test_rand_int() << 32 |
                   (uint32_t)g_test_rand_int();

    switch (g_test_rand_int_range(0, 8)) {
    case 0:
        return any;
    case 1:
        return any >> g_test_rand_int_range(0, 64);
    case 2:
        return below;
    default:
        return any % below;
    }
}

/* A store of any size to anywhere, as the two words that it may touch see it */
static void monkey_store(const Nest *n, Ref *r, uint32_t offset, unsigned size,
                         uint64_t value)
{
    uint8_t bytes[8];

    write_size(n, n->area + offset, size, value);
    stq_be_p(bytes, value);
    for (unsigned i = 8 - size; i < 8;) {
        uint32_t at = offset - (8 - size) + i;
        uint8_t word[8];

        stq_be_p(word, ref_get(r, at & ~7));
        do {
            word[at % 8] = bytes[i++];
        } while (++at % 8 && i < 8);
        ref_put(r, (at - 1) & ~7, ldq_be_p(word));
    }
}

static void test_monkey(const void *data)
{
    const Gen *gen = data;
    Nest n0 = nest_init(gen, TWO_CHIPS);
    Nest nest[] = { n0, nest_of(n0.qts, gen, 1) };
    g_autofree Ref *r0 = ref_new(&nest[0]), *r1 = ref_new(&nest[1]);
    Ref *refs[] = { r0, r1 };

    for (int i = 0; i < (g_test_slow() ? 20000 : 1000); i++) {
        unsigned chip = g_test_rand_int_range(0, 2);
        Nest *n = &nest[chip];
        Ref *r = refs[chip];
        uint32_t offset = g_test_rand_int_range(0, EVENTS_END - 8);
        unsigned size = 1 << g_test_rand_int_range(0, 4);
        uint64_t ns;

        switch (g_test_rand_int_range(0, 14)) {
        case 0:
            monkey_store(n, r, COMMAND, 8, monkey_value(4));
            break;
        case 1:
            monkey_store(n, r, COMMAND, 8, RESUME);
            break;
        case 2:
            monkey_store(n, r, SPEED, 8, monkey_value(13));
            break;
        case 3:
            monkey_store(n, r, MODE, 8, monkey_value(gen->modes + 1));
            break;
        case 4:
            monkey_store(n, r, UAV, 8, monkey_value(UINT64_MAX));
            break;
        case 5:
            /* Mend it */
            monkey_store(n, r, SPEED, 8, g_test_rand_int_range(0, 3));
            monkey_store(n, r, MODE, 8, 0);
            break;
        case 6:
            monkey_store(n, r, STATUS + g_test_rand_int_range(0, 0x29), size,
                         monkey_value(4));
            break;
        case 7:
        case 8:
            monkey_store(n, r, offset, size, monkey_value(UINT64_MAX));
            break;
        case 9:
            if (!ref_is_frame(r, offset & ~7)) {
                uint64_t count = monkey_value(UINT64_MAX);

                setf(n, "nest-add", "%u=%" PRIu64, offset & ~7, count);
                r->words[offset / 8].count += count;
            }
            break;
        case 10:
            r->demo = !r->demo;
            set(n, "nest-synthetic", r->demo ? "demo" : "");
            ref_update(r);
            break;
        default:
            ns = g_test_rand_int_range(1, 3 * MS) <<
                 g_test_rand_int_range(0, 4);
            step(n, ns);
            ref_step(r0, ns);
            ref_step(r1, ns);
            break;
        }

        g_assert_cmphex(get(n, STATUS), !=, 0);
        ref_check(r, n);
    }
    ref_check(r0, &nest[0]);
    ref_check(r1, &nest[1]);
    nest_quit(&n0);
}

/* The device tree and the memory map are made once: imc cannot change then. */
static void test_machine_late(const void *data)
{
    const Gen *gen = data;
    Nest n = nest_init(gen, "");
    QDict *error = qtest_qmp_assert_failure_ref(n.qts,
        "{ 'execute': 'qom-set', 'arguments': { 'path': '/machine', "
        "'property': 'imc', 'value': false } }");

    g_assert_cmpstr(qdict_get_str(error, "desc"), ==,
                    "imc cannot be set after the machine was created");
    qobject_unref(error);
    g_assert_true(qtest_qom_get_bool(n.qts, "/machine", "imc"));
    nest_quit(&n);
}

static void add_test_of(const Gen *gen, const char *name,
                        void (*test)(const void *data))
{
    g_autofree char *path = g_strdup_printf("pnv-imc/%s/%s", gen->machine,
                                            name);

    qtest_add_data_func(path, gen, test);
}

static void add_test(const char *name, void (*test)(const void *data))
{
    for (int i = 0; i < ARRAY_SIZE(gens); i++) {
        add_test_of(&gens[i], name, test);
    }
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);

    add_test("state/boot", test_boot);
    add_test("state/machine-option-late", test_machine_late);
    add_test("state/reset", test_reset);
    add_test("state/commands", test_commands);
    add_test("state/bad-commands-pause", test_bad_commands);
    add_test("state/many-pauses", test_pauses);
    add_test("state/speeds", test_speeds);
    add_test("state/bad-speeds", test_bad_speeds);
    add_test("state/modes", test_modes);
    add_test("state/read-only-words", test_read_only);
    add_test("state/bytes-of-control-words", test_bytes_of_control);

    add_test("count/exact-time-of-post", test_post_time);
    add_test("count/time-of-day", test_tod);
    add_test("count/carry", test_carry);
    add_test("count/carry-over-changes", test_rest);
    add_test("count/clocks", test_clocks);
    add_test("count/availability", test_availability);
    add_test_of(&gens[0], "count/shared-words", test_shared);
    add_test("count/frames", test_frames);
    add_test("count/wrap", test_wrap);

    add_test("access/sizes", test_access_sizes);
    add_test("access/edges", test_edges);
    add_test("access/monitor", test_monitor);

    add_test("property/uav-status-speed", test_properties);
    add_test("property/unit-freeze", test_unit_freeze);
    add_test_of(&gens[1], "property/links", test_links);
    add_test("property/names", test_names);
    add_test("property/synthetic-forms", test_synthetic_forms);
    add_test("property/synthetic-values", test_synthetic_values);
    add_test("property/synthetic-change", test_synthetic_change);
    add_test("property/synthetic-many", test_synthetic_many);
    add_test("property/synthetic-errors", test_synthetic_errors);
    add_test("property/demo", test_demo);
    add_test("property/add", test_add);
    add_test("property/chips", test_chips);
    add_test("property/fault", test_fault);
    add_test("property/fault-torn", test_fault_torn);
    add_test("property/fault-clear", test_fault_clear);

    add_test("machine/homer", test_homer);
    add_test("machine/priority", test_priority);
    add_test("machine/memory", test_memory);
    add_test("machine/flash", test_flash);
    add_test("machine/off", test_off);
    add_test("machine/options", test_options);
    qtest_add_func("pnv-imc/powernv8/no-option", test_power8);
    qtest_add_func("pnv-imc/catalog/good", test_catalog);
    qtest_add_func("pnv-imc/catalog/dashes", test_dashes);
    qtest_add_func("pnv-imc/catalog/bad", test_bad_catalogs);
    qtest_add_func("pnv-imc/catalog/most-events", test_most_events);

    add_test("random/monkey", test_monkey);

    return g_test_run();
}
