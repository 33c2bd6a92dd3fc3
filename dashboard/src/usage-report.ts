/** Reports of usage, which the gateway may add up in several answers. */
import { type ApiQuery, read } from './api.ts'
import type { Listed } from './key-records.ts'
import type { UsageRow, UsageTotals } from './usage-figures.ts'

export type ReportOfUsage = Listed<UsageRow> & {
  readonly next: string | null
  /** The time since which all is added up; null: the whole range. */
  readonly searched_until: string | null
  readonly total: UsageTotals
  readonly names: { readonly [id: string]: string }
}

/** Reads a report until all is added up. `goesOn` receives each answer before that, which has no rows. */
export const readReport = async (
  query: ApiQuery,
  goesOn: (part: ReportOfUsage) => boolean = () => true,
): Promise<ReportOfUsage> => {
  let report = await read<ReportOfUsage>('/usage', query)
  while (report.searched_until !== null && goesOn(report))
    report = await read<ReportOfUsage>('/usage', { ...query, after: report.next })
  return report
}
