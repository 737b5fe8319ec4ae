import { useEffect, useRef } from 'react'
import { Link } from 'wouter'

interface TabLink {
  readonly title: string
  readonly href: string
  readonly isCurrent: boolean
}

/** Links to the parts of one page. */
export function Tabs({ label, links }: { readonly label: string; readonly links: readonly TabLink[] }) {
  const bar = useRef<HTMLElement>(null)
  const current = links.find(({ isCurrent }) => isCurrent)?.href
  // On a narrow screen the bar scrolls, and the page alone does not say which tab it is.
  useEffect(() => {
    bar.current?.querySelector('[aria-current]')?.scrollIntoView({ block: 'nearest', inline: 'nearest' })
  }, [current])
  return (
    <nav className="tabs" aria-label={label} ref={bar}>
      {links.map(({ title, href, isCurrent }) => (
        <Link key={href} href={href} aria-current={isCurrent ? 'page' : undefined}>
          {title}
        </Link>
      ))}
    </nav>
  )
}
