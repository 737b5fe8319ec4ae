import type { StoreSecrets } from '../secrets/stores.ts'
import type { ChosenPrograms } from './binaries.ts'
import type { Log } from './layout.ts'

/** This machine as a host. */
export interface HostOptions {
  /** Its id in the catalog. */
  readonly id: string
  readonly dataDir: string
  /** Short, since socket paths lie below it, and traversable for the computes' users. */
  readonly runtimeDir: string
  /** Passwords of Neap's own roles in stores. */
  readonly secrets: StoreSecrets
  readonly log: Log
  /** The directories of programs of Postgres that the operator has chosen, by version. */
  readonly programs?: ChosenPrograms
}
