import { useQuery, useQueryClient } from '@tanstack/react-query'
import type { ApiResponse } from '../../../../src/client.ts'
import { call, prepare } from '../../api.ts'
import { count } from '../../parts/amounts.ts'
import { Copied } from '../../parts/copied.tsx'
import { Field, textOf } from '../../parts/field.tsx'
import { FormDialog } from '../../parts/form_dialog.tsx'
import { Meter } from '../../parts/meter.tsx'
import { QUOTA_NAMES, QuotaFields, QUOTAS, quotasOf } from '../../parts/quota_fields.tsx'
import { Setting } from '../../parts/setting.tsx'
import { Failure, Loading } from '../../parts/states.tsx'
import { Notices } from '../project/notices.tsx'

type Account = ApiResponse<'GET /account'>['account']

const CHANGE = 'PATCH /account'

/** The plan of the account, its limits and its quotas, with what is used of them. */
export function Limits() {
  const queries = useQueryClient()
  const read = useQuery({ queryKey: ['account'], queryFn: async () => (await call('GET /account', {})).account })
  if (read.isPending) return <Loading what="Reading the account" />
  if (read.error && !read.data) return <Failure error={read.error} retry={() => void read.refetch()} />
  const account = read.data
  const done = () => queries.invalidateQueries({ queryKey: ['account'] })
  return (
    <>
      <Notices />
      <Setting
        title="Account"
        state={
          <>
            {account.name} <Copied text={account.id} what="the account’s id" />
          </>
        }
      />
      <Setting
        title="Plan and limits"
        state={
          <>
            <p>
              Plan: <strong>{account.plan}</strong>
            </p>
            <Meter label="Projects" used={account.projects} limit={account.projects_limit} show={count} />
            <small>Branches of one project: {count(account.branches_limit)} at most</small>
          </>
        }
      >
        <ChangeLimits account={account} done={done} />
      </Setting>
      <Setting
        title="Quotas of a month"
        state={
          <>
            {QUOTA_NAMES.map((name) => (
              <Meter
                key={name}
                label={QUOTAS[name].title}
                used={account.used[name]}
                limit={account.quota[name]}
                show={QUOTAS[name].show}
              />
            ))}
            {account.quota_exceeded !== undefined && (
              <p role="alert">A quota is used up, and computes do not start: {account.quota_exceeded}.</p>
            )}
          </>
        }
      >
        <ChangeQuotas account={account} done={done} />
      </Setting>
    </>
  )
}

interface ChangeProps {
  readonly account: Account
  readonly done: () => unknown
}

const limitOf = (fields: FormData, name: string): number | null => {
  const given = textOf(fields, name)
  return given === undefined ? null : Number(given)
}

function ChangeLimits({ account, done }: ChangeProps) {
  return (
    <FormDialog
      opener="Change limits"
      title="Plan and limits"
      verb="Save"
      request={(fields) =>
        prepare(CHANGE, {
          body: {
            account: {
              plan: textOf(fields, 'plan') as 'free' | 'paid',
              projects_limit: limitOf(fields, 'projects'),
              branches_limit: limitOf(fields, 'branches'),
            },
          },
        })
      }
      neap={(fields) => [
        'account',
        'update',
        '--plan',
        textOf(fields, 'plan') ?? 'default',
        '--projects-limit',
        textOf(fields, 'projects') ?? 'default',
        '--branches-limit',
        textOf(fields, 'branches') ?? 'default',
      ]}
      done={done}
    >
      <Field label="Plan">
        <select name="plan" defaultValue={account.plan}>
          <option>free</option>
          <option>paid</option>
        </select>
      </Field>
      <Field label="Projects at most" hint="Empty: as the settings of this Neap say.">
        <input name="projects" type="number" min={1} max={1_000_000} defaultValue={account.projects_limit} />
      </Field>
      <Field label="Branches of a project at most" hint="Empty: as the settings of this Neap say.">
        <input name="branches" type="number" min={1} max={1_000_000} defaultValue={account.branches_limit} />
      </Field>
    </FormDialog>
  )
}

function ChangeQuotas({ account, done }: ChangeProps) {
  return (
    <FormDialog
      opener="Change quotas"
      title="Quotas of all projects together"
      verb="Save"
      request={(fields) => prepare(CHANGE, { body: { account: { quota: quotasOf(fields) } } })}
      done={done}
    >
      <QuotaFields now={account.quota} />
    </FormDialog>
  )
}
