import { type ReactNode, useSyncExternalStore } from 'react'
import { Link, useRoute } from 'wouter'
import { reachability } from './api.ts'
import { OpenPalette } from './palette/open_palette.tsx'
import { switchOrganization } from './organization.ts'
import { useOrganizations, useShownOrganization } from './organizations_query.ts'
import { useMe, useSignOut } from './me.ts'

/** The frame of every page: where one is, where one can go, and whether Neap answers. */
export function Shell({ children }: { readonly children: ReactNode }) {
  const me = useMe()
  const signOut = useSignOut()
  return (
    <>
      <a className="skip" href="#main">
        Skip to the page
      </a>
      <header className="top">
        <Link href="/" className="brand">
          <img src="/icon.svg" alt="" width="22" height="22" /> Neap
        </Link>
        <nav aria-label="Console">
          <Place href="/">Projects</Place>
          <Place href="/keys">API keys</Place>
          <Place href="/account">Account</Place>
          <Place href="/members">Members</Place>
          <Place href="/you">You</Place>
        </nav>
        <OpenPalette />
        <OrganizationSwitch />
        <span className="who">{me.data?.name}</span>
        <button type="button" onClick={() => void signOut()}>
          Sign out
        </button>
      </header>
      <Away />
      <main id="main">{children}</main>
    </>
  )
}

/** The organization that the page shows, where the person has several. */
function OrganizationSwitch() {
  const shown = useShownOrganization()
  const all = useOrganizations().data?.organizations ?? []
  if (!shown || all.length < 2) return null
  return (
    <select
      aria-label="Organization"
      className="organization"
      value={shown.id}
      onChange={({ target }) => switchOrganization(target.value)}
    >
      {all.map(({ id, name }) => (
        <option key={id} value={id}>
          {name}
        </option>
      ))}
    </select>
  )
}

function Place({ href, children }: { readonly href: string; readonly children: ReactNode }) {
  const [isExact] = useRoute(href)
  const [isWithin] = useRoute(href === '/' ? '/projects/*' : `${href}/*`)
  return (
    <Link href={href} aria-current={isExact || isWithin ? 'page' : undefined}>
      {children}
    </Link>
  )
}

/** Says that Neap does not answer, until it does. */
function Away() {
  const isAway = useSyncExternalStore(reachability.subscribe, reachability.isAway)
  return (
    <div className="away" role="status">
      {isAway && 'Neap does not answer. The page goes on when it is back.'}
    </div>
  )
}
