import { type Static, Type } from 'typebox'
import { countProjects } from '../../catalog/project.ts'
import { accountUse, MONTHLY_QUOTAS } from '../../catalog/quota.ts'
import { changeAccount, limitsOf } from '../../commands/account_limits.ts'
import { AppError } from '../../errors.ts'
import { type RequestContext, route } from '../route.ts'

const Plan = Type.Union([Type.Literal('free'), Type.Literal('paid')])
const Quotas = Object.fromEntries(
  MONTHLY_QUOTAS.map((name) => [name, Type.Integer({ minimum: 0, maximum: Number.MAX_SAFE_INTEGER })]),
) as Record<(typeof MONTHLY_QUOTAS)[number], ReturnType<typeof Type.Integer>>
const MAX_LIMIT = 1_000_000

const Account = Type.Object(
  {
    id: Type.String(),
    name: Type.String(),
    email: Type.String(),
    plan: Plan,
    projects: Type.Integer({ description: 'How many there are' }),
    projects_limit: Type.Integer(),
    branches_limit: Type.Integer({ description: 'Of one project' }),
    quota: Type.Object(Quotas, { description: 'Of all its projects in a calendar month (UTC); 0: no limit' }),
    used: Type.Object(Quotas, { description: 'What they have used of it' }),
    quota_exceeded: Type.Optional(Type.String({ description: 'A quota that is used up: computes do not start' })),
  },
  { $id: 'Account' },
)

const nullable = <T extends Parameters<typeof Type.Union>[0][number]>(type: T, description: string) =>
  Type.Optional(Type.Union([type, Type.Null()], { description }))
const OF_SETTINGS = 'null: that of the settings of this Neap'

export const getAccount = route('GET /account', {
  summary: 'The account: its plan, its limits, and what it has used of them',
  tag: 'Neap',
  returns: Type.Object({ account: Account }),
  errors: [],
}).handle(async (_request, context) => ({ account: await accountView(context) }))

export const updateAccount = route('PATCH /account', {
  summary: 'Change the plan, limits and quotas of the account, which is for the operator; what is not given stays',
  changesKeys: true,
  tag: 'Neap',
  scope: 'admin',
  body: Type.Object({
    account: Type.Object({
      plan: nullable(Plan, OF_SETTINGS),
      projects_limit: nullable(Type.Integer({ minimum: 1, maximum: MAX_LIMIT }), OF_SETTINGS),
      branches_limit: nullable(Type.Integer({ minimum: 1, maximum: MAX_LIMIT }), OF_SETTINGS),
      quota: Type.Optional(
        Type.Object(
          Object.fromEntries(
            MONTHLY_QUOTAS.map((name) => [name, nullable(Type.Integer({ minimum: 0 }), '0 or null: no limit')]),
          ),
        ),
      ),
    }),
  }),
  returns: Type.Object({ account: Account }),
  errors: ['NOT_FOUND'],
}).handle(async ({ body }, context) => {
  const { caller } = context
  if (!caller.account.is_default && caller.credential.kind !== 'admin_socket')
    throw new AppError('FORBIDDEN', 'The operator of this Neap sets the plan and the limits of this organization.')
  const account = await changeAccount(context, body.account)
  return { account: await accountView({ ...context, caller: { ...context.caller, account } }) }
})

async function accountView({ db, config, caller: { account } }: RequestContext): Promise<Static<typeof Account>> {
  const { id, name, email, plan, quota, quota_exceeded } = account
  const { projects, branches } = limitsOf({ account, config })
  const used = await accountUse(db, id)
  const perQuota = (value: (name: (typeof MONTHLY_QUOTAS)[number]) => number) =>
    Object.fromEntries(MONTHLY_QUOTAS.map((each) => [each, Math.round(value(each))])) as Static<typeof Account>['quota']
  return {
    id,
    name,
    email,
    plan,
    projects: await countProjects(db, id, MAX_LIMIT),
    projects_limit: projects,
    branches_limit: branches,
    quota: perQuota((each) => quota[each] ?? 0),
    used: perQuota((each) => used[each]),
    ...(quota_exceeded !== null && { quota_exceeded }),
  }
}
