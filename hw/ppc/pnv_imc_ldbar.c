/*
 * PowerNV in-memory collection counters: writes of LDBAR
 *
 * Stock, LDBAR stores what is written, and with "lpar-per-core" also to the
 * other threads of the core. The counters need to know, and each thread has a
 * LDBAR of its own. So on machines with counters, code that writes LDBAR calls
 * a helper.
 *
 * Copyright (c) qemu-pmu developers
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#include "qemu/osdep.h"
#include "hw/ppc/pnv_imc.h"
#include "hw/ppc/pnv_core.h"
#include "qemu/main-loop.h"

#ifdef CONFIG_TCG
#include "exec/translator.h"
#include "tcg/tcg-op-common.h"

#define HELPER_H "hw/ppc/pnv_imc_helper.h"
#include "exec/helper-proto.h.inc"
#include "exec/helper-gen.h.inc"
#include "exec/helper-info.c.inc"
#undef HELPER_H

void helper_pnv_imc_ldbar(CPUPPCState *env, uint32_t gpr)
{
    PnvImcThread *t = pnv_cpu_state(env_archcpu(env))->imc;

    env->spr[SPR_LDBAR] = env->gpr[gpr];
    BQL_LOCK_GUARD();
    pnv_imc_ldbar_write(t, env->gpr[gpr]);
}

static void gen_ldbar_write(DisasContext *ctx, int sprn, int gprn)
{
    /*
     * The block ends here: what it has counted is then up to and with this
     * instruction, and what is to be counted from now on begins with the next
     * one. The base is the first member of what only translate.c knows.
     */
    translator_io_start((DisasContextBase *)ctx);
    gen_helper_pnv_imc_ldbar(tcg_env, tcg_constant_i32(gprn));
}
#endif

void pnv_imc_ldbar_hook(PnvImcThread *t)
{
    pnv_cpu_state(t->cpu)->imc = t;
#ifdef CONFIG_TCG
    t->cpu->env.spr_cb[SPR_LDBAR].hea_write = gen_ldbar_write;
#endif
}
