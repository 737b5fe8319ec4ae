/** How much of a limit is used, as a bar and in words; without a limit only in words. */
export function Meter({
  label,
  used,
  limit,
  show,
}: {
  readonly label: string
  readonly used: number
  /** 0: no limit. */
  readonly limit: number
  readonly show: (amount: number) => string
}) {
  const share = limit === 0 ? 0 : Math.min(1, used / limit)
  return (
    <div className="meter">
      <span>{label}</span>
      <span>
        {show(used)} {limit === 0 ? <small>no limit</small> : <small>of {show(limit)}</small>}
      </span>
      {limit > 0 && (
        <meter aria-label={label} value={share} max={1} high={0.85}>
          {Math.round(share * 100)} %
        </meter>
      )}
    </div>
  )
}

/** Seconds as hours, such as "1.5 h"; less than an hour as minutes. */
export const hoursOf = (seconds: number): string =>
  seconds < 3_600 ? `${Math.round(seconds / 60)} min` : `${(seconds / 3_600).toFixed(1)} h`
