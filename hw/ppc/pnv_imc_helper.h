/*
 * PowerNV in-memory collection counters: what generated code calls
 *
 * Copyright (c) qemu-pmu developers
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

DEF_HELPER_2(pnv_imc_ldbar, void, env, i32)
