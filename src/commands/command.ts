import type { Account } from '../catalog/account.ts'
import type { Db } from '../catalog/catalog.ts'
import type { Context } from '../context.ts'

/** The context of a command. Its rows and operations commit with the transaction `db`. */
export interface CommandContext extends Context {
  readonly db: Db
  /** The account that owns the resources. */
  readonly account: Account
}
