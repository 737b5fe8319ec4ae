/*
 * Authentication of a client, before a compute is woken for it:
 *
 *   AuthenticationSASL ─▶ SASLInitialResponse ─▶ …Continue ─▶ SASLResponse ─▶ …Final, AuthenticationOk
 *
 * A client with an unknown role or endpoint gets the same exchange as one with a wrong password. A client that names
 * its endpoint neither by host name nor by options sends `endpoint=<id>;<password>` as its password, in clear text
 * within TLS.
 */
import { timingSafeEqual } from 'node:crypto'
import type { Duplex } from 'node:stream'
import { clientKeyOf, storedKeyOf } from '../../postgres/scram_keys.ts'
import type { Client } from '../accept/client.ts'
import { ProxyError } from '../wire/errors.ts'
import { PASSWORD_MESSAGE } from '../wire/message_types.ts'
import { encodeAuthentication } from '../wire/messages.ts'
import { readMessage } from '../wire/packet.ts'
import { SCRAM, SCRAM_PLUS, type ScramKeys } from '../wire/scram.ts'
import type { Admission } from './admission.ts'
import { scramServer } from './scram_server.ts'
import type { Verifier } from './verifier.ts'

/** Clients answer at once: a program that prompts for a password reconnects with it. */
const ANSWER_MS = 15_000

/**
 * Limit of SCRAM iterations for clear-text passwords, whose keys the proxy derives: some 50 ms. SCRAM clients derive
 * their own keys, without a limit.
 */
export const MAX_ITERATIONS = 100_000

/** Checks a proof when the rate limit admits it (see attempts.ts). */
export type CheckInTurn = <T>(check: () => T | Promise<T>, isRight: (answer: T) => boolean) => Promise<T>

/** Derives SaltedPassword (RFC 5802) of a password in fair order (see derivations.ts). */
export type Derive = (password: string, salt: Buffer, iterations: number) => Promise<Buffer>

const [OK, CLEARTEXT, SASL, SASL_CONTINUE, SASL_FINAL] = [0, 3, 10, 11, 12] as const

/**
 * Verifies the client's SCRAM proof against a verifier. Returns the keys of the exchange.
 * @param found the verifier, looked up while the client prepares its first message; a mock verifier for an unknown role
 * or a role without a password
 * Errors: wrong_password, malformed, too_slow, ClientGone, and those of the lookup.
 */
export async function authenticate(
  { stream: client, binding }: Client,
  user: string,
  found: Promise<Verifier>,
  inTurn: CheckInTurn,
): Promise<ScramKeys> {
  const mechanisms = [...(binding ? [SCRAM_PLUS] : []), SCRAM]
  client.write(encodeAuthentication(SASL, `${mechanisms.map((name) => `${name}\0`).join('')}\0`))
  const [verifier, response] = await Promise.all([found, answer(client)])
  const { mechanism, first } = initialResponse(response)
  if (!mechanisms.includes(mechanism))
    throw new ProxyError('malformed', { text: 'client selected an invalid SASL authentication mechanism' })
  const server = scramServer(verifier, binding)
  const challenge = server.challenge(mechanism, first)
  if (challenge === undefined) throw malformedScram()
  client.write(encodeAuthentication(SASL_CONTINUE, challenge))
  const proof = (await answer(client)).toString()
  const verified = await inTurn(
    () => server.verify(proof),
    (verdict) => verdict !== 'wrong',
  )
  if (verified === undefined) throw malformedScram()
  if (verified === 'wrong') throw wrongPassword(user)
  client.write(Buffer.concat([encodeAuthentication(SASL_FINAL, verified.serverFinal), encodeAuthentication(OK)]))
  return verified.keys
}

/** Requests the password in clear text. Errors: malformed, too_slow, ClientGone. */
export async function askForPassword(client: Duplex): Promise<string> {
  client.write(encodeAuthentication(CLEARTEXT))
  return (await answer(client)).toString().replace(/\0$/, '')
}

/** Splits a password that includes the endpoint id. Errors: no_endpoint. */
export function splitPassword(given: string): { endpointId: string; password: string } {
  const [, endpointId, password] = /^(?:endpoint|project)=([A-Za-z0-9-]+)[;$](.*)$/s.exec(given) ?? []
  if (endpointId === undefined || password === undefined) throw new ProxyError('no_endpoint')
  return { endpointId, password }
}

/**
 * As `authenticate`, for a clear-text password. A verifier with too many iterations is treated as a wrong password, so
 * that the error does not reveal whether the role exists. Errors: wrong_password, and those of `inTurn` and `derive`.
 * @param mock makes a verifier that no password fits
 */
export async function checkPassword(
  client: Duplex,
  user: string,
  password: string,
  { verifier, mock }: Pick<Admission, 'verifier' | 'mock'>,
  inTurn: CheckInTurn,
  derive: Derive,
): Promise<ScramKeys> {
  const { salt, iterations, storedKey, serverKey } = verifier.iterations > MAX_ITERATIONS ? mock() : verifier
  const clientKey = await inTurn(
    async () => {
      // For typed passwords SASLprep (RFC 4013) amounts to NFKC. Postgres too keeps text that it cannot prepare as it
      // is.
      const salted = await derive(password.normalize('NFKC'), salt, iterations)
      const key = clientKeyOf(salted)
      return timingSafeEqual(storedKeyOf(key), storedKey) ? key : undefined
    },
    (key) => key !== undefined,
  )
  if (!clientKey) throw wrongPassword(user, CLEAR_TEXT_HINT)
  client.write(encodeAuthentication(OK))
  return { clientKey, serverKey }
}

/** Sent with every wrong clear-text password, so that it does not reveal whether the role exists. */
const CLEAR_TEXT_HINT =
  'A password that is not sent by SCRAM is checked against a verifier ' +
  `of at most ${MAX_ITERATIONS} SCRAM iterations.`

const wrongPassword = (user: string, hint?: string): ProxyError =>
  new ProxyError('wrong_password', { text: `password authentication failed for user "${user}"`, hint })

const malformedScram = (): ProxyError => new ProxyError('malformed', { text: 'malformed SCRAM message' })

async function answer(client: Duplex): Promise<Buffer> {
  const { type, body } = await readMessage(client, ANSWER_MS)
  if (type !== PASSWORD_MESSAGE) throw new ProxyError('malformed', { text: 'expected a password response' })
  return body
}

/** Errors: malformed. */
function initialResponse(body: Buffer): { mechanism: string; first: string } {
  const end = body.indexOf(0)
  const length = end >= 0 && body.length >= end + 5 ? body.readInt32BE(end + 1) : -1
  if (length < 0 || body.length !== end + 5 + length) throw malformedScram()
  return { mechanism: body.toString('latin1', 0, end), first: body.toString('utf8', end + 5) }
}
