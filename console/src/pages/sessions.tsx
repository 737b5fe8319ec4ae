import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query'
import type { ApiResponse } from '../../../src/client.ts'
import { call } from '../api.ts'
import { Failure, Loading } from '../parts/states.tsx'
import { type Column, Table } from '../parts/table.tsx'
import { Moment } from '../parts/time.tsx'

type Session = ApiResponse<'GET /users/me/sessions'>['sessions'][number]

const QUERY = {
  queryKey: ['sessions'],
  queryFn: async () => (await call('GET /users/me/sessions', {})).sessions,
}

/** The sessions of the person who looks. */
export function Sessions() {
  const sessions = useQuery(QUERY)
  if (sessions.isPending) return <Loading what="Reading your sessions" />
  if (sessions.error) return <Failure error={sessions.error} retry={() => void sessions.refetch()} />
  return (
    <section aria-labelledby="sessions">
      <div className="heading">
        <h2 id="sessions">Sessions</h2>
      </div>
      <Table label="Sessions" columns={COLUMNS} rows={sessions.data} keyOf={({ id }) => id} />
    </section>
  )
}

const METHODS: Readonly<Record<string, string>> = {
  link: 'link',
  password: 'password',
  invitation: 'invitation',
  passkey: 'passkey',
  oidc: 'your organization’s account',
}

const COLUMNS: readonly Column<Session>[] = [
  {
    title: 'Browser',
    of: ({ user_agent, current }) => (
      <>
        {user_agent || 'unknown'} {current && <span className="mark">this one</span>}
      </>
    ),
  },
  {
    title: 'Signed in',
    of: ({ created_at, method }) => (
      <>
        <Moment at={created_at} /> <small>by {METHODS[method] ?? method}</small>
      </>
    ),
  },
  {
    title: 'Last used',
    of: ({ last_used_at, last_used_from }) => (
      <>
        <Moment at={last_used_at} /> <small>from {last_used_from}</small>
      </>
    ),
  },
  { title: 'Ends unless used', of: ({ expires_at }) => <Moment at={expires_at} /> },
  { title: 'Actions', isActions: true, of: (session) => !session.current && <EndSession session={session} /> },
]

function EndSession({ session }: { readonly session: Session }) {
  const queries = useQueryClient()
  const end = useMutation({
    mutationFn: () => call('DELETE /users/me/sessions/:session_id', { params: { session_id: session.id } }),
    onSettled: () => queries.invalidateQueries(QUERY),
  })
  return (
    <>
      {end.error && <small role="alert">{end.error.message}</small>}
      <button type="button" disabled={end.isPending} onClick={() => end.mutate()}>
        End
      </button>
    </>
  )
}
