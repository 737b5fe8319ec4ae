import { file, issuer, setting, text } from './setting_kinds.ts'

/** Settings of sign-in at an OpenID Connect provider. */
export const SIGN_IN_SETTINGS = {
  oidcIssuer: setting<string | undefined>({
    env: 'NEAP_OIDC_ISSUER',
    parse: issuer,
    expects: 'the https URL of an OpenID Connect issuer (http on this machine)',
    about: 'An OpenID Connect provider at which people sign in at the console too.',
    fallback: () => undefined,
  }),
  oidcClientId: setting<string | undefined>({
    env: 'NEAP_OIDC_CLIENT_ID',
    ...text,
    about:
      'The name of this Neap there. The provider sends browsers back to `/session/oidc/callback` at the address of ' +
      'the console.',
    fallback: () => undefined,
  }),
  oidcClientSecret: setting<string | undefined>({
    env: 'NEAP_OIDC_CLIENT_SECRET',
    ...text,
    about: 'And its secret there (client_secret_basic); without one it is a public client.',
    fallback: () => undefined,
  }),
  oidcClientSecretFile: setting<string | undefined>({
    env: 'NEAP_OIDC_CLIENT_SECRET_FILE',
    ...file,
    about: 'Or a file with that secret.',
    fallback: () => undefined,
  }),
  oidcName: setting<string | undefined>({
    env: 'NEAP_OIDC_NAME',
    ...text,
    about: 'The name of the provider on the sign-in page; by default its host.',
    fallback: () => undefined,
  }),
  oidcRole: setting<'none' | 'viewer' | 'editor'>({
    env: 'NEAP_OIDC_ROLE',
    parse: (value) => (value === 'none' || value === 'viewer' || value === 'editor' ? value : undefined),
    expects: 'none, viewer or editor',
    about:
      'The role in the first organization of a person who signs in at the provider for the first time ' +
      '(none: new people need an invitation).',
    fallback: () => 'none',
  }),
}
