import { useState } from 'react'
import { count, duration, rowCount } from '../parts/amounts.ts'
import { exportResult } from './export.ts'
import { Grid } from './grid.tsx'
import { Plan, readPlan } from './plan.tsx'
import type { Answer, Result } from './run.ts'

/** The answer to a text: its result sets one at a time, notices, and the error. */
export function Results({ answer }: { readonly answer: Answer }) {
  const { results, notices, error, ms, isRunning } = answer
  const [chosen, setChosen] = useState(0)
  const at = Math.min(chosen, results.length - 1)
  const shown = results[at]
  if (!isRunning && ms === undefined && !error && results.length === 0)
    return <p className="state">Write SQL above and run it: the answer stands here.</p>
  return (
    <section aria-label="Answer" className="answer">
      <p className="summary" role="status">
        {isRunning ? 'Running …' : summaryOf(answer)}
      </p>
      {error && <ErrorOf error={error} />}
      {notices.map(({ severity, message, hint }, index) => (
        <p key={index} className="notice">
          <b>{severity}</b> {message} {hint}
        </p>
      ))}
      {results.length > 1 && (
        <div className="sets" role="group" aria-label="Results">
          {results.map((result, index) => (
            <button key={index} type="button" aria-pressed={index === at} onClick={() => setChosen(index)}>
              {index + 1}: {result.tag ?? 'running'}
            </button>
          ))}
        </div>
      )}
      {shown && <ResultOf key={at} result={shown} />}
    </section>
  )
}

function summaryOf({ results, error, ms }: Answer): string {
  const statements = results.length === 1 ? '1 statement' : `${results.length} statements`
  if (error && results.length === 0) return 'No statement answered.'
  if (error)
    return `${statements} answered, then none${error.report ? ': all was undone unless the text committed' : ''}.`
  return `${statements} in ${duration(ms ?? 0)}`
}

function ErrorOf({ error: { title, message, report } }: { readonly error: NonNullable<Answer['error']> }) {
  return (
    <div role="alert" className="wrong">
      <p>
        <b>{title}</b> {message}
      </p>
      {report?.detail && <p>{report.detail}</p>}
      {report?.hint && <p>Hint: {report.hint}</p>}
      {report?.where && <p>{report.where}</p>}
    </div>
  )
}

function ResultOf({ result }: { readonly result: Result }) {
  const { columns, rows, tag, total, truncated, ms } = result
  const plan = columns?.[0]?.name === 'QUERY PLAN' && rows.length === 1 ? readPlan(rows[0]?.[0]) : undefined
  if (columns === undefined)
    return (
      <p>
        {tag} <small>{duration(ms)}</small>
      </p>
    )
  return (
    <>
      <div className="toolbar">
        <span>
          {tag === undefined ? `${rowCount(rows.length)} so far` : `${rowCount(total)} in ${duration(ms)}`}
          {truncated && ` (${count(rows.length)} shown: the others are over the limit)`}
        </span>
        <button type="button" disabled={tag === undefined} onClick={() => exportResult(result, 'csv')}>
          Export CSV
        </button>
        <button type="button" disabled={tag === undefined} onClick={() => exportResult(result, 'json')}>
          Export JSON
        </button>
      </div>
      {plan ? <Plan plan={plan} /> : <Grid label="Rows" columns={columns} rows={rows} />}
    </>
  )
}
