import { Type } from 'typebox'
import { listAccountsOf } from '../../catalog/account.ts'
import type { Person } from '../../catalog/person.ts'
import { limitsOf } from '../../commands/account_limits.ts'
import { whyNoOrganization } from '../../commands/organization.ts'
import { BillingAccount, billingAccount } from '../billing_account.ts'
import { LARGEST_CU, SMALLEST_CU } from '../../size.ts'
import { route } from '../route.ts'
import { Organization, presentOrganization } from './organizations.ts'

export const getAuth = route('GET /auth', {
  summary: 'Whose key this is',
  tag: 'User',
  anyProject: true,
  returns: Type.Object({
    account_id: Type.String(),
    auth_method: Type.Union([Type.Literal('api_key_user'), Type.Literal('session_cookie')]),
    auth_data: Type.Optional(Type.String()),
  }),
  errors: [],
}).handle(async (_request, { caller }) => ({
  account_id: caller.account.id,
  auth_method: caller.credential.kind === 'session' ? 'session_cookie' : 'api_key_user',
  ...(caller.credential.kind === 'api_key' && { auth_data: String(caller.credential.id) }),
}))

export const getCurrentUser = route('GET /users/me', {
  summary: 'The account and what it may have',
  tag: 'User',
  anyProject: true,
  returns: Type.Object({
    id: Type.String(),
    login: Type.String(),
    email: Type.String(),
    name: Type.String(),
    last_name: Type.String(),
    image: Type.String(),
    plan: Type.String(),
    auth_accounts: Type.Array(Type.Object({})),
    billing_account: BillingAccount,
    projects_limit: Type.Integer(),
    branches_limit: Type.Integer(),
    max_autoscaling_limit: Type.Number(),
    active_seconds_limit: Type.Integer(),
    compute_seconds_limit: Type.Integer(),
  }),
  errors: [],
}).handle(async (_request, { caller: { account, credential }, config }) => ({
  id: account.id,
  login: account.name,
  email: account.email,
  name: account.name,
  ...(credential.kind === 'session' && personOf(credential)),
  last_name: '',
  image: '',
  plan: account.plan,
  auth_accounts: [],
  billing_account: billingAccount(account),
  projects_limit: limitsOf({ account, config }).projects,
  branches_limit: limitsOf({ account, config }).branches,
  max_autoscaling_limit: account.plan === 'free' ? SMALLEST_CU : LARGEST_CU,
  // Clients read 0 as "no limit".
  active_seconds_limit: account.quota.active_time_seconds ?? 0,
  compute_seconds_limit: account.quota.compute_time_seconds ?? 0,
}))

function personOf({ person: { id, name, email } }: { readonly person: Person }) {
  return { id, login: name, name, email }
}

export const listUserOrganizations = route('GET /users/me/organizations', {
  summary: "A key's organization, or those of which a person is a member",
  tag: 'User',
  anyProject: true,
  returns: Type.Object({
    organizations: Type.Array(Organization),
    creation_refused: Type.Optional(Type.String({ description: 'Why this person may create no further one' })),
  }),
  errors: [],
}).handle(async (_request, { db, config, caller: { account, credential } }) => {
  if (credential.kind !== 'session') return { organizations: [presentOrganization(account)] }
  const accounts = await listAccountsOf(db, credential.person.id)
  const refused = await whyNoOrganization(db, config, credential.person.id)
  return {
    organizations: accounts.map((each) => presentOrganization(each, each.role)),
    ...(refused !== undefined && { creation_refused: refused }),
  }
})
