/*
 * Where the code of modes.S finds its things below 64 KiB
 *
 * Copyright (c) qemu-pmu developers
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#ifndef X86_PMU_MODES_H
#define X86_PMU_MODES_H

#define MODES_BASE          0xa000
#define MODES_TSS           0xc000
#define MODES_IDT           0xc800
#define MODES_DATA          0xe000
#define MODES_DATA_SIZE     0x800
#define MODES_STACK         0xfff0
/* The vector by which V86 code ends */
#define MODES_EXIT          0x82

#endif
