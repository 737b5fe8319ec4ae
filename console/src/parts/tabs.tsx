import { Link } from 'wouter'

interface TabLink {
  readonly title: string
  readonly href: string
  readonly isCurrent: boolean
}

/** Links to the parts of one page. */
export function Tabs({ label, links }: { readonly label: string; readonly links: readonly TabLink[] }) {
  return (
    <nav className="tabs" aria-label={label}>
      {links.map(({ title, href, isCurrent }) => (
        <Link key={href} href={href} aria-current={isCurrent ? 'page' : undefined}>
          {title}
        </Link>
      ))}
    </nav>
  )
}
