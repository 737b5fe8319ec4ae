import type { Config } from '../config.ts'
import { AppError } from '../errors.ts'

export interface Size {
  readonly min: number
  readonly max: number
}

/** The size that is asked for, or the given one. Fixed: a multiple of 0.25 CU in 0.25 … 7. Autoscaling: both limits within 1 … 7. */
export function requireSize(
  asked: { readonly autoscaling_limit_min_cu?: number; readonly autoscaling_limit_max_cu?: number },
  otherwise: Size,
): Size {
  const { autoscaling_limit_min_cu: min, autoscaling_limit_max_cu: max } = asked
  if (min === undefined && max === undefined) return otherwise
  if (min === undefined || max === undefined)
    throw refused('Give both autoscaling_limit_min_cu and autoscaling_limit_max_cu, or neither')
  if (min > max) throw refused(`autoscaling_limit_min_cu (${min}) is over autoscaling_limit_max_cu (${max})`)
  if ([min, max].some((size) => !Number.isInteger(size * 4) || size < 0.25 || size > 7)) {
    throw refused('A compute size is a multiple of 0.25 CU from 0.25 to 7')
  }
  if (min < max && min < 1) throw refused('With autoscaling (min below max) both limits lie from 1 to 7 CU')
  return { min, max }
}

/** -1 never, 0 the default of this Neap, else the allowed minimum … one week. */
export function requireSuspendTimeout(config: Config, seconds: number): void {
  if (seconds === 0 || seconds === -1) return
  if (seconds >= config.minSuspendTimeout && seconds <= 604_800) return
  throw refused(
    `suspend_timeout_seconds is ${seconds}; it takes -1 (never), 0 (the default) or ${config.minSuspendTimeout} to 604800`,
  )
}

const refused = (message: string) => new AppError('NOT_ALLOWED', `${message}.`)
