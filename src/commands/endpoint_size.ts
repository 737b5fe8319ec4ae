import type { Account } from '../catalog/account.ts'
import type { Config } from '../config.ts'
import { AppError } from '../errors.ts'
import { LARGEST_CU, SMALLEST_CU } from '../size.ts'

/** A compute size in CU: fixed if both limits are equal, autoscaling otherwise. */
export interface ComputeSize {
  readonly min: number
  readonly max: number
}

interface Asked {
  readonly autoscaling_limit_min_cu?: number
  readonly autoscaling_limit_max_cu?: number
}

/** The default size, and the only one of the free plan. */
export const SMALLEST: ComputeSize = { min: SMALLEST_CU, max: SMALLEST_CU }

/**
 * The requested size, or `otherwise`. Fixed: a multiple of 0.25 CU in 0.25 … 7. Autoscaling: both limits within 1 … 7.
 * Errors: one code for each rule; PLAN_DOES_NOT_ALLOW.
 */
export function requireSize(account: Account, asked: Asked, otherwise: ComputeSize): ComputeSize {
  const { autoscaling_limit_min_cu: min, autoscaling_limit_max_cu: max } = asked
  if (min === undefined && max === undefined) return account.plan === 'free' ? SMALLEST : otherwise
  if (min === undefined || max === undefined)
    throw new AppError(
      'COMPUTE_SIZE_INCOMPLETE',
      'Give both autoscaling_limit_min_cu and autoscaling_limit_max_cu, or neither. ' +
        'The same value twice is a fixed size.',
    )
  const size = validSize({ min, max })
  if (account.plan === 'free' && (size.min !== SMALLEST.min || size.max !== SMALLEST.max))
    throw new AppError(
      'PLAN_DOES_NOT_ALLOW',
      'On the free plan every endpoint has 0.25 CU; another compute size takes a paid plan.',
    )
  return size
}

/**
 * The size of an existing endpoint after a change; a limit that is not given stays. The current size is always allowed.
 * Errors: as `requireSize`, and ENDPOINT_MODE_CHANGE_NOT_SUPPORTED.
 */
export function requireNewSize(account: Account, asked: Asked, now: ComputeSize): ComputeSize {
  const { autoscaling_limit_min_cu: min = now.min, autoscaling_limit_max_cu: max = now.max } = asked
  if (min === now.min && max === now.max) return now
  if (account.plan === 'free')
    throw new AppError(
      'PLAN_DOES_NOT_ALLOW',
      'Changing the compute size takes a paid plan; this account has the free one.',
    )
  const size = validSize({ min, max })
  if (isFixed(size) !== isFixed(now))
    throw new AppError(
      'ENDPOINT_MODE_CHANGE_NOT_SUPPORTED',
      isFixed(now)
        ? 'The endpoint has a fixed size and cannot be switched to autoscaling: ' +
            'set both limits to the same value, or create another endpoint.'
        : 'The endpoint autoscales and cannot be switched to a fixed size: ' +
            'keep the lower limit below the upper one, or create another endpoint.',
    )
  return size
}

const isFixed = ({ min, max }: ComputeSize): boolean => min === max

function validSize(size: ComputeSize): ComputeSize {
  const { min, max } = size
  if (min > max)
    throw new AppError(
      'COMPUTE_SIZE_INVERTED',
      `autoscaling_limit_min_cu (${min}) is over autoscaling_limit_max_cu (${max}).`,
    )
  if ([min, max].some((limit) => !Number.isInteger(limit * 4) || limit < SMALLEST_CU || limit > LARGEST_CU))
    throw new AppError(
      'COMPUTE_SIZE_NOT_SUPPORTED',
      'autoscaling_limit_min_cu and autoscaling_limit_max_cu: a compute size is a multiple of 0.25 CU from 0.25 to 7.',
    )
  if (!isFixed(size) && min < 1)
    throw new AppError(
      'AUTOSCALING_RANGE_NOT_SUPPORTED',
      `With autoscaling (the lower limit below the upper one) both limits lie from 1 to 7 CU; the lower one is ${min}.`,
    )
  return size
}

/** -1 never, 0 the default of this Neap, else `minSuspendTimeout` … one week. Errors: SUSPEND_TIMEOUT_NOT_SUPPORTED. */
export function requireSuspendTimeout(config: Config, seconds: number): void {
  if (seconds === 0 || seconds === -1) return
  if (seconds >= config.minSuspendTimeout && seconds <= 604_800) return
  throw new AppError(
    'SUSPEND_TIMEOUT_NOT_SUPPORTED',
    `suspend_timeout_seconds is ${seconds}; ` +
      `it takes -1 (never), 0 (the default) or ${config.minSuspendTimeout} to 604800.`,
  )
}
