import type { Scope } from './api_key.ts'

/** A person who signs in at the console. */
export interface Person {
  readonly id: string
  readonly name: string
  readonly email: string
  readonly created_at: string
}

export type MemberRole = 'admin' | 'editor' | 'viewer'

/** The scope that a member's sessions have in the account. */
export const SCOPE_OF: Readonly<Record<MemberRole, Scope>> = { admin: 'admin', editor: 'write', viewer: 'read' }
