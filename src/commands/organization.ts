import {
  type Account,
  countCreatedAccounts,
  findAccount,
  findDefaultAccount,
  insertAccount,
  lockAccount,
  renameAccount,
} from '../catalog/account.ts'
import type { Db } from '../catalog/catalog.ts'
import { countMemberships, findMember, insertMember } from '../catalog/member.ts'
import type { Person } from '../catalog/person.ts'
import type { Config } from '../config.ts'
import { AppError } from '../errors.ts'
import { newOrganizationId, newUuid } from '../ids.ts'

/** Organizations of which one person may be a member: the person's changes are in the audit list of each. */
export const MAX_MEMBERSHIPS = 100
/** Organizations that an admin of the operator's organization may create. */
const MAX_OF_OPERATOR = 100

/**
 * Why a person may create no further organization; undefined: he may. An organization has projects of its own, so that
 * creating one would escape the limits of others: admins of the operator's organization may, others as far as the
 * setting says.
 */
export async function whyNoOrganization(
  db: Db,
  { organizationsLimit }: Pick<Config, 'organizationsLimit'>,
  personId: string,
): Promise<string | undefined> {
  const first = await findDefaultAccount(db)
  const isOperator = first !== undefined && (await findMember(db, first.id, personId))?.role === 'admin'
  const limit = isOperator ? Math.max(MAX_OF_OPERATOR, organizationsLimit) : organizationsLimit
  if (limit === 0)
    return 'Only admins of the organization that owns this Neap create organizations here. Ask one of them.'
  if ((await countCreatedAccounts(db, personId)) >= limit)
    return `You have created ${limit} organizations, as many as you may.`
  if ((await countMemberships(db, personId)) >= MAX_MEMBERSHIPS)
    return `You are a member of ${MAX_MEMBERSHIPS} organizations, as many as you may. Leave one first.`
  return undefined
}

/** Creates an organization with its first admin, with the plan and the limits of the settings. Errors: FORBIDDEN. */
export async function createOrganization(
  { db, config }: { readonly db: Db; readonly config: Config },
  { id: creatorId, email }: Person,
  name: string,
): Promise<Account> {
  const first = await findDefaultAccount(db)
  // Of two requests at once the second counts the result of the first.
  if (first) await lockAccount(db, first.id)
  const reason = await whyNoOrganization(db, config, creatorId)
  if (reason !== undefined) throw new AppError('FORBIDDEN', reason)
  const account = await insertAccount(db, {
    id: newUuid(),
    organization_id: newOrganizationId(),
    name,
    email,
    plan: config.plan,
    creatorId,
  })
  await insertMember(db, account.id, creatorId, 'admin')
  return account
}

export async function renameOrganization(db: Db, account: Account, name: string): Promise<Account> {
  await renameAccount(db, account.id, name)
  return (await findAccount(db, account.id)) ?? account
}
