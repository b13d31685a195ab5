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

#ifndef __ASSEMBLER__

void body_sse(void);
void body_avx(void);
void body_exchange(void);
void body_no_access(void);
void body_vmmcall(void);
void body_io_breakpoint(void);
void run_mode(uint64_t entry);
extern char modes_start[], modes_end[], modes_enable[];
extern char modes_compat_32[], modes_compat_16[], modes_into_32[];
extern char modes_into_16[], modes_legacy_32[], modes_real[], modes_v86[];
extern char modes_v86_exit[];
extern uint64_t modes_area[];

#endif

#endif
