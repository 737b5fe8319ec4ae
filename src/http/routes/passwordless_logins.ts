import { type Static, Type } from 'typebox'
import type { ShownLogin } from '../../catalog/passwordless_login.ts'
import {
  approvePasswordlessLogin,
  type Approver,
  lookAtLogin,
  refusePasswordlessLogin,
  requirePasswordlessLogin,
} from '../../commands/passwordless_login.ts'
import { PasswordlessLogin, passwordlessLoginView } from '../../views/passwordless_login.ts'
import { actorOf, type RequestContext, route } from '../route.ts'

const Code = Type.Object({
  code: Type.String({ minLength: 1, maxLength: 20, description: 'As the client shows it, such as 7QDK-M2XN' }),
})
const Shown = Type.Object({ passwordless_login: PasswordlessLogin })

const approverOf = ({ caller }: RequestContext): Approver => ({ ...actorOf(caller), projectId: caller.projectId })

const shown = ({ clientAddress }: RequestContext, login: ShownLogin): Static<typeof Shown> => ({
  passwordless_login: passwordlessLoginView(login, clientAddress),
})

export const getPasswordlessLogin = route('GET /passwordless_logins/:code', {
  summary: 'Get a login that waits for approval, by the code that its client shows',
  tag: 'Passwordless login',
  anyProject: true,
  params: Code,
  returns: Shown,
  errors: ['NOT_FOUND'],
}).handle(async ({ params }, context) =>
  shown(context, await requirePasswordlessLogin(context, params.code, approverOf(context))),
)

export const approveLogin = route('POST /passwordless_logins/:code/approve', {
  summary: 'Let a waiting login in, once; do so only for a login that you began yourself',
  tag: 'Passwordless login',
  anyProject: true,
  params: Code,
  returns: Shown,
  errors: ['NOT_FOUND', 'CONFLICT', 'NOT_ALLOWED'],
})
  .ask(({ params }, context) => lookAtLogin(context, params.code, approverOf(context)))
  .handle(async ({ params }, context, branch) =>
    shown(context, await approvePasswordlessLogin(context, params.code, approverOf(context), branch)),
  )

export const refuseLogin = route('POST /passwordless_logins/:code/refuse', {
  summary: 'Refuse a waiting login',
  tag: 'Passwordless login',
  anyProject: true,
  params: Code,
  returns: Shown,
  errors: ['NOT_FOUND', 'CONFLICT'],
}).handle(async ({ params }, context) =>
  shown(context, await refusePasswordlessLogin(context, params.code, approverOf(context))),
)
