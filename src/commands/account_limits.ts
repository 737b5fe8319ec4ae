import { type Account, findAccount, lockAccount, updateAccount } from '../catalog/account.ts'
import { type MonthlyQuota, renewAccountQuotas } from '../catalog/quota.ts'
import { AppError } from '../errors.ts'
import type { CommandContext } from './command.ts'

/** The numbers of projects of an account, and of branches of one project: its own, or those of the settings. */
export const limitsOf = ({ account, config }: Pick<CommandContext, 'account' | 'config'>) => ({
  projects: account.projects_limit ?? config.projectsLimit,
  branches: account.branches_limit ?? config.branchesLimit,
})

/** The limits of an account that a request may change; null returns to the settings of this Neap. */
export interface AskedAccount {
  readonly plan?: Account['plan'] | null
  readonly projects_limit?: number | null
  readonly branches_limit?: number | null
  /** Null or 0: no limit. */
  readonly quota?: Partial<Record<MonthlyQuota, number | null>>
}

/** Changes the given limits of an account. Limits below what there is stop only new resources. */
export async function changeAccount(
  { db, config, account: { id } }: CommandContext,
  { plan, quota, ...limits }: AskedAccount,
): Promise<Account> {
  await lockAccount(db, id)
  const before = await findOwn()
  const quotas = Object.entries({ ...before.quota, ...quota }).filter(([, most]) => most)
  const changes = {
    ...limits,
    ...(plan !== undefined && { own_plan: plan }),
    ...(quota && { quota: Object.fromEntries(quotas) as Account['quota'] }),
  }
  await updateAccount(db, before, changes, config.plan)
  await renewAccountQuotas(db, id)
  return findOwn()

  async function findOwn(): Promise<Account> {
    const account = await findAccount(db, id)
    if (!account) throw new AppError('NOT_FOUND', `account ${id} not found`)
    return account
  }
}
