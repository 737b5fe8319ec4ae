import type { Logger } from 'pino'
import type { Registry } from 'prom-client'
import type { Computes } from './compute/compute.ts'
import type { Catalog } from './catalog/catalog.ts'
import type { Config } from './config.ts'
import type { UidRange } from './host/uids.ts'
import type { Secrets } from './secrets/secrets.ts'
import type { Storage } from './storage/storage.ts'

/** The dependencies of request handlers. Each part opens one in parts/part.ts; tests build their own. */
export interface Context {
  readonly catalog: Catalog
  readonly config: Config
  readonly secrets: Secrets
  readonly log: Logger
  /** The metrics of this process. */
  readonly registry: Registry
}

/** The context of operations' steps and of the control loops. */
export interface WorkerContext extends Context {
  /** The stores and computes of this host. */
  readonly storage: Storage
  readonly computes: Computes
  /** The id of this host. */
  readonly hostId: string
  /** The uids of its servers, where each runs as a user of its own. */
  readonly uids?: UidRange | undefined
}
