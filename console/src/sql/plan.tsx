import { duration } from '../parts/amounts.ts'

/** A node of EXPLAIN (FORMAT JSON), as far as it is shown. */
interface PlanNode {
  readonly 'Node Type': string
  readonly 'Total Cost'?: number
  readonly 'Startup Cost'?: number
  readonly 'Plan Rows'?: number
  readonly 'Actual Total Time'?: number
  readonly 'Actual Rows'?: number
  readonly 'Actual Loops'?: number
  readonly Plans?: readonly PlanNode[]
  readonly [field: string]: unknown
}

interface Explained {
  readonly Plan: PlanNode
  readonly 'Planning Time'?: number
  readonly 'Execution Time'?: number
}

/** Fields that the line of a node shows, or that say little. */
const SHOWN = new Set([
  'Node Type',
  'Plans',
  'Total Cost',
  'Startup Cost',
  'Plan Rows',
  'Plan Width',
  'Relation Name',
  'Index Name',
  'Alias',
  'Schema',
  'Parallel Aware',
  'Async Capable',
  'Parent Relationship',
  'Actual Startup Time',
  'Actual Total Time',
  'Actual Rows',
  'Actual Loops',
  'Disabled',
])

/** The plan in the answer of EXPLAIN (FORMAT JSON); undefined where it is none. */
export function readPlan(text: string | null | undefined): Explained | undefined {
  try {
    const [first] = JSON.parse(text ?? '') as (Explained | undefined)[]
    return typeof first?.Plan?.['Node Type'] === 'string' ? first : undefined
  } catch {
    return undefined
  }
}

/** A plan as a tree; each node says what share of the whole cost, or time, is its own. */
export function Plan({ plan }: { readonly plan: Explained }) {
  const whole = weightOf(plan.Plan) || 1
  return (
    <div className="plan">
      {plan['Execution Time'] !== undefined && (
        <p>
          Planned in {duration(plan['Planning Time'] ?? 0)}, ran in {duration(plan['Execution Time'])}
        </p>
      )}
      <ul aria-label="Plan">
        <Node node={plan.Plan} whole={whole} />
      </ul>
    </div>
  )
}

function Node({ node, whole }: { readonly node: PlanNode; readonly whole: number }) {
  const below = node.Plans ?? []
  const own = Math.max(0, weightOf(node) - below.reduce((sum, each) => sum + weightOf(each), 0))
  const share = Math.min(100, Math.round((own / whole) * 100))
  const details = Object.entries(node).filter(([name]) => !SHOWN.has(name))
  const relation = [node['Relation Name'], node['Index Name']].filter((each) => typeof each === 'string').join(', ')
  return (
    <li>
      <details>
        <summary>
          <b>{node['Node Type']}</b> {relation}{' '}
          <meter min={0} max={100} value={share} aria-label={`${share} % of the whole`} />{' '}
          <small>{numbersOf(node, share)}</small>
        </summary>
        <dl className="facts">
          {details.map(([name, value]) => (
            <div key={name}>
              <dt>{name}</dt>
              <dd>{typeof value === 'string' ? value : JSON.stringify(value)}</dd>
            </div>
          ))}
        </dl>
      </details>
      {below.length > 0 && (
        <ul>
          {below.map((each, at) => (
            <Node key={at} node={each} whole={whole} />
          ))}
        </ul>
      )}
    </li>
  )
}

function numbersOf(node: PlanNode, share: number): string {
  const { 'Actual Rows': rows, 'Actual Loops': loops = 1, 'Plan Rows': expected } = node
  if (rows === undefined) return `${share} % · cost ${node['Total Cost'] ?? '?'} · ${expected ?? '?'} rows expected`
  const time = duration(weightOf(node))
  return `${share} % · ${time} · ${rows * loops} rows (${(expected ?? 0) * loops} expected)`
}

/** The time of a node with those below it, or its cost where it did not run. */
function weightOf(node: PlanNode): number {
  const time = node['Actual Total Time']
  return time === undefined ? (node['Total Cost'] ?? 0) : time * (node['Actual Loops'] ?? 1)
}
