import { useQuery } from '@tanstack/react-query'
import { useState } from 'react'
import { useSearchParams } from 'wouter'
import { type Branch, call } from '../api.ts'
import { keysOf } from '../live.ts'
import type { SqlPlace } from './ask.ts'

/**
 * The database and the role that the pages of a branch run SQL with: those of the address, or those that were chosen last
 * in this tab.
 */
export function useSqlPlace(branch: Branch) {
  const params = { project_id: branch.project_id, branch_id: branch.id }
  const read = useQuery({
    queryKey: [...keysOf(branch.project_id).state, 'branch', branch.id, 'sql'],
    queryFn: async () => {
      const [{ databases }, { roles }] = await Promise.all([
        call('GET /projects/:project_id/branches/:branch_id/databases', { params }),
        call('GET /projects/:project_id/branches/:branch_id/roles', { params }),
      ])
      return { databases, roles }
    },
  })
  const [address, setAddress] = useSearchParams()
  const [kept, setKept] = useState(() => readChosen(branch.id))
  const chosen = { database: address.get('database') ?? kept.database, role: address.get('role') ?? kept.role }
  const { databases = [], roles = [] } = read.data ?? {}
  const database = databases.find(({ name }) => name === chosen.database) ?? databases[0]
  const role = roles.find(({ name }) => name === chosen.role)?.name ?? database?.owner_name ?? ''
  function choose(next: { database: string; role: string }): void {
    sessionStorage.setItem(keyOf(branch.id), JSON.stringify(next))
    setKept(next)
    setAddress((before) => ({ ...Object.fromEntries(before), ...next }), { replace: true })
  }
  const place: SqlPlace = { branch, database: database?.name ?? '', role }
  return {
    read,
    place,
    databases: databases.map(({ name }) => name),
    roles: roles.map(({ name }) => name),
    setDatabase: (name: string) =>
      choose({ database: name, role: databases.find((each) => each.name === name)?.owner_name ?? role }),
    setRole: (name: string) => choose({ database: place.database, role: name }),
  }
}

export type PlaceChoice = ReturnType<typeof useSqlPlace>

const keyOf = (branchId: string): string => `neap.sql.place.${branchId}`

function readChosen(branchId: string): { database?: string; role?: string } {
  try {
    return (JSON.parse(sessionStorage.getItem(keyOf(branchId)) ?? '{}') ?? {}) as { database?: string; role?: string }
  } catch {
    return {}
  }
}

/** Two lists to choose database and role from. */
export function PlaceFields({ choice }: { readonly choice: PlaceChoice }) {
  return (
    <>
      <label>
        Database{' '}
        <select value={choice.place.database} onChange={({ target }) => choice.setDatabase(target.value)}>
          {choice.databases.map((name) => (
            <option key={name}>{name}</option>
          ))}
        </select>
      </label>
      <label>
        Role{' '}
        <select value={choice.place.role} onChange={({ target }) => choice.setRole(target.value)}>
          {choice.roles.map((name) => (
            <option key={name}>{name}</option>
          ))}
        </select>
      </label>
    </>
  )
}
