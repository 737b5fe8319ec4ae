/*
 * The login of a client that gives no password, at an endpoint with passwordless_access:
 *
 *   asked ─▶ AuthenticationOk, a notice with link and code ─▶ waits ─approved▶ keys of the role, for this session
 *                                                              ├─refused, two minutes▶ error
 *                                                              └─client leaves▶ withdrawn
 *
 * AuthenticationOk comes first since clients take notices only after it (Postgres manual, "Start-up"); the session
 * begins with the compute's ReadyForQuery. No compute is asked or woken before the approval.
 */
import { randomBytes, randomUUID } from 'node:crypto'
import type { Logger } from 'pino'
import type { Catalog } from '../../catalog/catalog.ts'
import { findLogin, type RoleLogin } from '../../catalog/login.ts'
import { type AskedLogin, askPasswordlessLogin, PASSWORDLESS_SECONDS } from '../../catalog/passwordless_login.ts'
import { createHandoverKeys } from '../../key_handover.ts'
import { canonicalLoginCode, newLoginCode } from '../../login_code.ts'
import { ownerOf } from '../../network.ts'
import { type AllowedAddresses, compileAllowed, isAllowed } from '../accept/allow_list.ts'
import type { Client } from '../accept/client.ts'
import { rethrowAsProxyError } from '../connect/wake.ts'
import { ProxyError } from '../wire/errors.ts'
import { encodeAuthentication, encodeNotice } from '../wire/messages.ts'
import { KEY_BYTES, type ScramKeys } from '../wire/scram.ts'
import type { Startup } from '../wire/startup.ts'
import { loginNames } from './login_names.ts'
import { isOwnRole } from './own_role.ts'
import { startAnswers } from './passwordless_answers.ts'
import { createWaitingPlaces } from './passwordless_places.ts'

const AUTHENTICATION_OK = 0

/** How codes are hashed, and where they are approved. */
export interface PasswordlessSettings {
  /** The keyed hash of a code. The key is the same as that of the API. */
  readonly hashLoginCode: (code: string) => Buffer
  /** The page of the console on which a person approves the code. */
  readonly approvalUrl: (code: string, clientAddress: string | undefined) => string
}

/** A client that a person has let in, for one session. */
export interface LetIn {
  readonly keys: ScramKeys
  /** The endpoint as of after the approval. */
  readonly target: RoleLogin
  readonly allowed: AllowedAddresses
}

/** The logins without a password at this proxy. */
export interface Passwordless {
  /**
   * Waits until a person lets the client in. Errors: passwordless_unavailable, passwordless_refused,
   * passwordless_expired, too_many_passwordless, stopping, catalog_away, malformed, ClientGone.
   */
  letIn(client: Client, endpointId: string, role: string, startup: Startup): Promise<LetIn>
  /** Ends all that wait. */
  stop(): void
}

/** Errors: the catalog is away. */
export async function startPasswordless(
  catalog: Catalog,
  { hashLoginCode, approvalUrl }: PasswordlessSettings,
  log: Logger,
): Promise<Passwordless> {
  const places = createWaitingPlaces()
  const answers = await startAnswers(catalog, log)

  /** Errors: passwordless_unavailable, catalog_away. */
  async function findPlace({ address }: Client, endpointId: string, role: string) {
    const target = isOwnRole(role) ? undefined : await findLogin(catalog, endpointId, role).catch(rethrowAsProxyError)
    const allowed = compileAllowed(target?.allowed_ips ?? null)
    if (!target?.passwordless_access || target.disabled || target.is_closed || !isAllowed(address, allowed))
      throw new ProxyError('passwordless_unavailable')
    return { target, allowed }
  }

  async function letIn(client: Client, endpointId: string, role: string, startup: Startup): Promise<LetIn> {
    const names = loginNames(role, startup)
    if (!client.onWaiting || !names) throw new ProxyError('passwordless_unavailable')
    const { target } = await findPlace(client, endpointId, role)
    const network = ownerOf(client.address)
    const leave = places.take(client.stream, { accountId: target.account_id, endpointId, network })
    try {
      client.onWaiting()
      const code = newLoginCode()
      const handover = createHandoverKeys()
      const asked: AskedLogin = {
        id: randomUUID(),
        endpointId,
        ...names,
        address: client.address ?? '',
        network,
        codeHash: hashLoginCode(canonicalLoginCode(code) ?? ''),
        secret: randomBytes(KEY_BYTES),
        publicKey: handover.publicKey,
      }
      const result = await askPasswordlessLogin(catalog, asked).catch(rethrowAsProxyError)
      if (result === 'too_many') throw new ProxyError('too_many_passwordless')
      if (result !== 'pending') throw new ProxyError('passwordless_unavailable')
      client.stream.write(welcome(code, approvalUrl(code, client.address)))
      const sealed = await answers.of(asked, client.stream)
      const opened = handover.open(sealed, { loginId: asked.id, endpointId, role })
      const keys = { clientKey: opened.subarray(0, KEY_BYTES), serverKey: opened.subarray(KEY_BYTES) }
      // Up to two minutes later: the endpoint and its allowed addresses may have changed.
      return { keys, ...(await findPlace(client, endpointId, role)) }
    } finally {
      leave()
    }
  }

  return { letIn, stop: () => answers.stop() }
}

const welcome = (code: string, url: string): Buffer =>
  Buffer.concat([
    encodeAuthentication(AUTHENTICATION_OK),
    encodeNotice(
      `This login waits for approval, for ${PASSWORDLESS_SECONDS / 60} minutes. Its code is ${code}`,
      `Open ${url} and approve it there, or run: npx neap approve ${code}`,
      'Approve it only if you began it yourself.',
    ),
  ])
