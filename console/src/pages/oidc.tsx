import { useQuery, useQueryClient } from '@tanstack/react-query'
import type { ApiResponse } from '../../../src/client.ts'
import { call } from '../api.ts'
import { ActionButton } from '../parts/action_button.tsx'
import { Moment } from '../parts/time.tsx'
import { useOidc } from '../oidc.ts'

type Identity = ApiResponse<'GET /users/me/identities'>['identities'][number]

const KEY = ['me', 'identities']

/** The accounts at a provider by which the person who looks signs in; an empty place where there is no provider. */
export function Identities() {
  const { name, go } = useOidc()
  const identities = useQuery({
    queryKey: KEY,
    queryFn: async () => (await call('GET /users/me/identities', {})).identities,
  })
  const all = identities.data ?? []
  if (name === undefined && all.length === 0) return null
  return (
    <section className="panel" aria-labelledby="identities">
      <h2 id="identities">Sign-in at {name ?? 'another provider'}</h2>
      {all.length === 0 && <p>Connect your account there to sign in by it.</p>}
      <ul>
        {all.map((identity) => (
          <li key={identity.id}>
            <Connected identity={identity} />
          </li>
        ))}
      </ul>
      {name !== undefined && (
        <ActionButton act={() => go({ connect: true })}>Connect an account of {name}</ActionButton>
      )}
    </section>
  )
}

function Connected({ identity: { id, issuer, subject, created_at } }: { readonly identity: Identity }) {
  const queries = useQueryClient()
  const remove = async () => {
    await call('DELETE /users/me/identities/:identity_id', { params: { identity_id: id } })
    await queries.invalidateQueries({ queryKey: KEY })
  }
  return (
    <>
      {subject} <small>at {issuer}, connected</small> <Moment at={created_at} />{' '}
      <ActionButton act={remove} label={`Disconnect ${subject}`}>
        Disconnect
      </ActionButton>
    </>
  )
}
