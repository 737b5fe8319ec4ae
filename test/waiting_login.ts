import { randomBytes, randomUUID } from 'node:crypto'
import { createHandoverKeys, type HandoverKeys } from '../src/key_handover.ts'
import { canonicalLoginCode, newLoginCode } from '../src/login_code.ts'
import { partKeysFile } from '../src/secrets/part_keys.ts'
import { loadPartSecrets } from '../src/secrets/secrets.ts'
import { catalogQuery } from './admin.ts'
import type { Neap } from './neap.ts'

/** A login that waits for approval, as its proxy knows it. */
export interface WaitingLogin {
  readonly id: string
  readonly code: string
  readonly secret: Buffer
  readonly handover: HandoverKeys
}

/** Asks for a login at an endpoint as a proxy does, without a client. Turns passwordless access on there. */
export async function makeWaitingLogin(neap: Neap, endpointId: string, role: string): Promise<WaitingLogin> {
  const { hashLoginCode } = await loadPartSecrets(partKeysFile(neap.ready.data_dir, 'proxy'), 'proxy')
  const login = { id: randomUUID(), code: newLoginCode(), secret: randomBytes(32), handover: createHandoverKeys() }
  await catalogQuery(neap, 'update endpoint set passwordless_access = true where id = $1', [endpointId])
  const [hash] = hashLoginCode(canonicalLoginCode(login.code) ?? '')
  // Each from a network of its own, and at other times: the limits are not what is tested.
  await catalogQuery(neap, `update passwordless_login set created_at = created_at - interval '10 minutes'`)
  await catalogQuery(neap, 'select ask_passwordless_login($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)', [
    login.id,
    endpointId,
    role,
    'neondb',
    'psql',
    '192.0.2.7',
    '192.0.2.7',
    hash,
    login.secret,
    login.handover.publicKey,
  ])
  return login
}
