import { Link } from 'wouter'
import { Empty } from '../parts/states.tsx'

export function NotFound() {
  return (
    <Empty title="There is no such page">
      <p>
        <Link href="/">See your projects</Link>
      </p>
    </Empty>
  )
}
