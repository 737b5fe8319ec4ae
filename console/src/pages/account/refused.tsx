import type { ApiResponse } from '../../../../src/client.ts'
import { Table } from '../../parts/table.tsx'
import { Moment } from '../../parts/time.tsx'

type RefusedAccess = NonNullable<ApiResponse<'GET /audit'>['refused']>[number]

const KINDS = { api_key: 'API key', login: 'login', sign_in: 'sign-in at the console' } as const

/** Refused keys and wrong passwords of the last weeks, added up. */
export function Refused({ rows }: { readonly rows: readonly RefusedAccess[] }) {
  if (rows.length === 0) return null
  return (
    <>
      <div className="heading next">
        <h2>Refused keys, logins and sign-ins</h2>
      </div>
      <Table
        label="Refused"
        rows={rows}
        keyOf={(row) => JSON.stringify(row)}
        columns={[
          { title: 'Of', of: ({ kind }) => KINDS[kind] },
          {
            title: 'To',
            of: ({ api_key_id, endpoint_id, role, person, person_id }) =>
              [api_key_id, endpoint_id, role, person?.name ?? person_id].filter(Boolean).join(' '),
          },
          { title: 'From', of: ({ network }) => network ?? 'many places' },
          { title: 'Times', of: ({ count }) => count },
          { title: 'Last', of: ({ last_at }) => <Moment at={last_at} /> },
        ]}
      />
    </>
  )
}
