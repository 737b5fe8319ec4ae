import { Link } from 'wouter'
import { Empty } from '../parts/states.tsx'

/** What stands in place of a branch or a project that another person may have deleted meanwhile. */
export function Gone({
  what,
  href,
  others,
}: {
  readonly what: string
  readonly href: string
  readonly others: string
}) {
  return (
    <Empty title={`There is no such ${what}`}>
      <p>It was deleted, or it belongs to another organization.</p>
      <Link href={href}>{others}</Link>
    </Empty>
  )
}

export function NotFound() {
  return (
    <Empty title="There is no such page">
      <p>
        <Link href="/">See your projects</Link>
      </p>
    </Empty>
  )
}
