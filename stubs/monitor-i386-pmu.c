/*
 * QMP command about the PMU of x86 CPUs, for QEMUs that have none
 *
 * Copyright (c) qemu-pmu developers
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#include "qemu/osdep.h"
#include "qapi/qapi-commands-pmu.h"

X86PmuInfoList *qmp_query_pmu(Error **errp)
{
    return NULL;
}
