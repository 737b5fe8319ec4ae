import { createHmac } from 'node:crypto'
import { readFileSync } from 'node:fs'
import type { Configuration } from 'openid-client'
import type { ProviderClaims } from '../commands/oidc_sign_in.ts'
import type { Config } from '../config.ts'
import { AppError } from '../errors.ts'

const TIMEOUT_SECONDS = 10
/** Conversations with the provider that may be under way: each waits for its answers. */
const MAX_UNDER_WAY = 20
const MAX_EMAIL = 254

/** The provider of the settings, found by OpenID Connect Discovery 1.0 at the first sign-in. */
export interface OidcProvider {
  /** The text of the button. */
  readonly name: string
  /** The address to send a browser to. @param secret 256 random bits that only this browser has */
  start(secret: string, callback: URL): Promise<URL>
  /** The claims that the provider gave to the browser with this secret. Errors: those of openid-client. */
  finish(secret: string, returned: URL): Promise<ProviderClaims>
}

/** The provider that the settings name, if any. */
export function openOidcProvider(
  config: Pick<Config, 'oidcIssuer' | 'oidcClientId' | 'oidcClientSecret' | 'oidcClientSecretFile' | 'oidcName'>,
): OidcProvider | undefined {
  const { oidcIssuer: issuer, oidcClientId: clientId } = config
  if (issuer === undefined || clientId === undefined) return undefined
  const secretOfClient = (): string | undefined =>
    config.oidcClientSecretFile === undefined
      ? config.oidcClientSecret
      : readFileSync(config.oidcClientSecretFile, 'utf8').trim()

  const discover = async (): Promise<Configuration> => {
    const { allowInsecureRequests, ClientSecretBasic, discovery, None } = await import('openid-client')
    const secret = secretOfClient()
    const authentication = secret === undefined ? None() : ClientSecretBasic(secret)
    const isPlain = new URL(issuer).protocol === 'http:'
    return discovery(new URL(issuer), clientId, undefined, authentication, {
      timeout: TIMEOUT_SECONDS,
      ...(isPlain && { execute: [allowInsecureRequests] }),
    })
  }
  let found: Promise<Configuration> | undefined
  const configuration = () => {
    // A provider that is away is asked again at the next sign-in.
    found ??= discover().catch((error: unknown) => {
      found = undefined
      throw error
    })
    return found
  }

  let underWay = 0
  async function bounded<T>(run: () => Promise<T>): Promise<T> {
    if (underWay >= MAX_UNDER_WAY)
      throw new AppError('RATE_LIMITED', 'Too many people sign in at this moment. Try again in a few seconds.')
    underWay++
    try {
      return await run()
    } finally {
      underWay--
    }
  }

  return {
    name: config.oidcName ?? new URL(issuer).hostname,
    start: (secret, callback) =>
      bounded(async () => {
        const { buildAuthorizationUrl, calculatePKCECodeChallenge } = await import('openid-client')
        return buildAuthorizationUrl(await configuration(), {
          redirect_uri: callback.href,
          scope: 'openid email profile',
          state: derived(secret, 'state'),
          nonce: derived(secret, 'nonce'),
          code_challenge: await calculatePKCECodeChallenge(derived(secret, 'verifier')),
          code_challenge_method: 'S256',
        })
      }),
    finish: (secret, returned) =>
      bounded(async () => {
        const { authorizationCodeGrant, fetchUserInfo } = await import('openid-client')
        const known = await configuration()
        const tokens = await authorizationCodeGrant(known, returned, {
          expectedState: derived(secret, 'state'),
          expectedNonce: derived(secret, 'nonce'),
          pkceCodeVerifier: derived(secret, 'verifier'),
          idTokenExpected: true,
        })
        const claims = tokens.claims()
        if (!claims) throw new Error('the provider sent no ID token')
        const more =
          claims['email'] === undefined && known.serverMetadata().userinfo_endpoint !== undefined
            ? await fetchUserInfo(known, tokens.access_token, claims.sub)
            : {}
        const { email, name } = { ...more, ...claims } as Readonly<Record<string, unknown>>
        return { issuer: claims.iss, subject: claims.sub, email: emailIn(email), name: textIn(name) }
      }),
  }
}

/**
 * The values of one sign-in follow from the browser's secret, so that no state is kept between its two requests: who
 * has one of them learns neither the secret nor the others.
 */
const derived = (secret: string, purpose: string): string =>
  createHmac('sha256', secret).update(purpose).digest('base64url')

const textIn = (value: unknown): string | undefined =>
  typeof value === 'string' && value.trim() !== '' ? value.replaceAll('\0', '').toWellFormed() : undefined

const emailIn = (value: unknown): string | undefined => {
  const text = textIn(value)
  return text !== undefined && /^[^\s@]+@[^\s@]+$/.test(text) && text.length <= MAX_EMAIL ? text : undefined
}
