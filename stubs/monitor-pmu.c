/*
 * QMP command about the PMUs of CPUs, for QEMUs that have none
 *
 * Copyright (c) qemu-pmu developers
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#include "qemu/osdep.h"
#include "qapi/qapi-commands-pmu.h"

PmuInfoList *qmp_query_pmu(Error **errp)
{
    return NULL;
}
