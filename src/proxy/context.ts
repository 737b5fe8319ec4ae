import type { Logger } from 'pino'
import type { RefusalWriter } from '../catalog/refusal_writer.ts'
import { openFilesLimit, RESERVED_FILES } from '../observe/open_files.ts'
import type { ProxyMetrics } from '../observe/proxy_metrics.ts'
import type { FindAdmission } from './auth/admission.ts'
import type { Attempts } from './auth/attempts.ts'
import type { CancelKeys } from './session/cancel.ts'
import type { Derivations } from './auth/derivations.ts'
import type { Holds } from './suspend/holds.ts'
import type { Limits } from './accept/limits.ts'
import type { Origins } from './accept/origins.ts'
import type { Pools } from './pool/pools.ts'
import type { SplicedSession } from './session/splice.ts'
import type { TrafficTable } from './suspend/traffic.ts'
import type { Waker } from './connect/wake.ts'

/** State shared by all connections. */
export interface ConnectionContext {
  readonly domain: string
  readonly wakeTimeoutMs: number
  readonly table: TrafficTable
  readonly waker: Waker
  readonly findAdmission: FindAdmission
  readonly attempts: Attempts
  readonly derivations: Derivations
  readonly refusals: RefusalWriter
  readonly limits: Limits
  readonly origins: Origins
  readonly holds: Holds
  readonly cancelKeys: CancelKeys
  /** Open sessions, which end when the proxy stops. */
  readonly sessions: Set<Pick<SplicedSession, 'end'>>
  readonly pools: Pools
  readonly metrics: ProxyMetrics
  readonly log: Logger
}

/** A session has two descriptors: the client's and the compute's. */
export const MAX_SESSIONS = Math.max(1, Math.floor((openFilesLimit() - RESERVED_FILES) / 2))
