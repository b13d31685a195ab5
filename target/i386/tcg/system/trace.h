/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "trace/trace-target_i386_tcg_system.h"
