/** Why this page cannot use passkeys; undefined where it can (Web Authentication Level 3, section 5.1.3). */
export function whyNoPasskeys(): string | undefined {
  if (/^[\d.]+$|^\[/.test(location.hostname))
    return 'Passkeys need a host name in the address of this page. On the machine of Neap open it as localhost.'
  if (!window.isSecureContext) return 'Passkeys need https in the address of this page.'
  if (typeof PublicKeyCredential === 'undefined') return 'This browser has no passkeys.'
  return undefined
}
