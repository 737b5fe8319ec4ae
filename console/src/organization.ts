/*
 * The organization that this page shows. Another tab may show another: it is read once, and changed by a new load, which
 * leaves nothing of the one before in memory.
 */

const STORED_AT = 'neap-organization'

const stored = (): string => {
  try {
    return localStorage.getItem(STORED_AT) ?? ''
  } catch {
    // A browser that keeps nothing shows the first organization.
    return ''
  }
}

/** The id of the organization; empty: the first that the person joined. */
export const organization = stored()

/** Shows another organization; empty: the first. */
export function switchOrganization(id: string): void {
  try {
    if (id === '') localStorage.removeItem(STORED_AT)
    else localStorage.setItem(STORED_AT, id)
  } catch {
    // As above.
  }
  location.assign('/')
}
