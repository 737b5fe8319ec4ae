import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query'
import type { FormEvent } from 'react'
import { Link, useLocation } from 'wouter'
import type { ApiResponse } from '../../../src/client.ts'
import { ApiError, call, prepare } from '../api.ts'
import { AsCommand } from '../parts/as_command.tsx'
import { Copied } from '../parts/copied.tsx'
import { Field, textOf } from '../parts/field.tsx'
import { Failure, Loading } from '../parts/states.tsx'
import { Moment } from '../parts/time.tsx'

type Login = ApiResponse<'GET /passwordless_logins/:code'>['passwordless_login']

/** A login that waits, and the organization that can answer it; undefined: the person's first. */
interface Found {
  readonly login: Login
  readonly organization: string | undefined
}

/** How often a login that waits is read again: its client may leave. */
const REFRESH_MS = 2_000

/** Lets a client that gave no password in, or refuses it. */
export function Approve({ code }: { readonly code?: string }) {
  return code === undefined ? <EnterCode /> : <Answer code={code} />
}

function EnterCode() {
  const [, navigate] = useLocation()
  const open = (event: FormEvent<HTMLFormElement>) => {
    event.preventDefault()
    const code = textOf(new FormData(event.currentTarget), 'code')
    if (code !== undefined) navigate(`/approve/${encodeURIComponent(code.trim())}`)
  }
  return (
    <form className="approval" onSubmit={open}>
      <h1>Let a client in</h1>
      <p>A client that connects without a password shows a code while its login waits.</p>
      <Field label="Code" hint="Such as 7QDK-M2XN">
        <input name="code" required maxLength={20} autoComplete="off" autoCapitalize="characters" />
      </Field>
      <div className="buttons">
        <button type="submit" className="main">
          Show the login
        </button>
      </div>
    </form>
  )
}

function Answer({ code }: { readonly code: string }) {
  const read = useQuery({
    queryKey: ['passwordless_login', code],
    queryFn: () => findLogin(code),
    refetchInterval: ({ state }) => (state.data?.login.status === 'pending' ? REFRESH_MS : false),
  })
  if (read.isPending) return <Loading what="Looking for the login" />
  if (!read.data)
    return (
      <section className="approval">
        <h1>There is no such login</h1>
        <Failure error={read.error} />
        <Link href="/approve">Enter another code</Link>
      </section>
    )
  const { login } = read.data
  return (
    <section className="approval">
      <h1>{HEADINGS[login.status]}</h1>
      {login.status === 'pending' ? <Question code={code} found={read.data} /> : <p>{OUTCOMES[login.status]}</p>}
      <Facts code={code} login={login} />
      {login.status === 'pending' && <Buttons code={code} found={read.data} />}
    </section>
  )
}

const HEADINGS: Readonly<Record<Login['status'], string>> = {
  pending: 'Let this client in?',
  approved: 'Let in',
  refused: 'Refused',
  withdrawn: 'The client has gone',
  expired: 'The time is over',
}

const OUTCOMES: Readonly<Record<Exclude<Login['status'], 'pending'>, string>> = {
  approved: 'The client is connected, for this one session. Go back to it; you can close this page.',
  refused: 'The client was told so. If you did not begin this login, it came from the address below.',
  withdrawn: 'It waits no more. Connect again for another code.',
  expired: 'A login waits for two minutes. Connect again for another code.',
}

/** Looks in each organization of the person, the first one first. */
async function findLogin(code: string): Promise<Found> {
  const request = prepare('GET /passwordless_logins/:code', { params: { code } })
  try {
    return { login: (await request.send()).passwordless_login, organization: undefined }
  } catch (error) {
    if (!(error instanceof ApiError) || error.status !== 404) throw error
    const { organizations } = await call('GET /users/me/organizations', {})
    for (const { id } of organizations) {
      const answer = await request.send(id).catch(() => undefined)
      if (answer) return { login: answer.passwordless_login, organization: id }
    }
    throw error
  }
}

function Question({ code, found: { login } }: { readonly code: string; readonly found: Found }) {
  return (
    <>
      <p>
        Approve it only if <strong>you began this login yourself</strong>, a moment ago, and your client shows the code{' '}
        <strong>{code.toUpperCase()}</strong>. A person who sent you this page as a link would be let in instead of you.
      </p>
      {!login.is_own_address && (
        <p className="warning" role="note">
          The client is at another address than this browser: {login.client_address}. Approve it only if you know that
          machine.
        </p>
      )}
    </>
  )
}

function Facts({ code, login }: { readonly code: string; readonly login: Login }) {
  const { project_id, branch_id } = login
  return (
    <dl className="facts">
      <dt>Code</dt>
      <dd>
        <code>{code.toUpperCase()}</code>
      </dd>
      <dt>Client address</dt>
      <dd>
        <code>{login.client_address}</code>{' '}
        <small>{login.is_own_address ? 'also that of this browser' : 'not that of this browser'}</small>
      </dd>
      <dt>It calls itself</dt>
      <dd>
        {login.application_name === '' ? <small>no name given</small> : <bdi>“{login.application_name}”</bdi>}{' '}
        <small>chosen by the client</small>
      </dd>
      <dt>Role</dt>
      <dd>
        <bdi>{login.role_name}</bdi>
      </dd>
      <dt>Database</dt>
      <dd>
        <bdi>{login.database_name}</bdi>
      </dd>
      <dt>Endpoint</dt>
      <dd>
        <Copied text={login.endpoint_id} what="the endpoint's id" />
      </dd>
      <dt>Project</dt>
      <dd>
        <Link href={`/projects/${project_id}`}>
          <bdi>{login.project_name}</bdi>
        </Link>
      </dd>
      <dt>Branch</dt>
      <dd>
        <Link href={`/projects/${project_id}/branches/${branch_id}`}>
          <bdi>{login.branch_name}</bdi>
        </Link>
      </dd>
      <dt>Waits since</dt>
      <dd>
        <Moment at={login.created_at} />
      </dd>
    </dl>
  )
}

function Buttons({ code, found: { organization } }: { readonly code: string; readonly found: Found }) {
  const queries = useQueryClient()
  const params = { code }
  const approval = prepare('POST /passwordless_logins/:code/approve', { params })
  const answer = useMutation({
    mutationFn: (approves: boolean) =>
      (approves ? approval : prepare('POST /passwordless_logins/:code/refuse', { params })).send(organization),
    onSuccess: ({ passwordless_login: login }) =>
      queries.setQueryData<Found>(['passwordless_login', code], { login, organization }),
    onError: () => void queries.invalidateQueries({ queryKey: ['passwordless_login', code] }),
  })
  return (
    <>
      {answer.error && <p role="alert">{answer.error.message}</p>}
      <div className="buttons">
        <button type="button" className="dangerous" disabled={answer.isPending} onClick={() => answer.mutate(false)}>
          Refuse
        </button>
        <button type="button" className="main" disabled={answer.isPending} onClick={() => answer.mutate(true)}>
          Approve
        </button>
      </div>
      <AsCommand request={() => approval} neap={() => ['approve', code.toUpperCase()]} onOpen={() => {}} />
    </>
  )
}
