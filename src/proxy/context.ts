import type { Origins } from './accept/origins.ts'
import type { LoginContext } from './auth/entry.ts'
import type { Pools } from './pool/pools.ts'
import type { DirectContext } from './session/direct.ts'

/** State shared by all connections. */
export interface ConnectionContext extends LoginContext, DirectContext {
  /** The suffix of endpoint host names. */
  readonly domain: string
  readonly origins: Origins
  readonly pools: Pools
}
