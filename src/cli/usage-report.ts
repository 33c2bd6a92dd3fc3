/** A report of usage from a gateway, with all its pages. */
import type { Shown } from '../records/entities/shown.ts'
import { USAGE_REPORT } from '../server/answers/usage.ts'
import { queryOf } from './accounts/record-store.ts'
import { type Cli, CliError, EXIT } from './cli.ts'
import type { GatewayClient } from './gateway-client.ts'

export const USAGE = '/admin/api/v1/usage'
/** Pages of a report that are read. */
const MAX_PAGES = 200
/** Answers without progress after which a report is given up. */
const MAX_STILL = 60

export type ShownReport = Shown<typeof USAGE_REPORT>

/**
 * The whole report: all pages as one. The gateway adds up for a second at a time, which a line on a terminal shows. Throws
 * `CliError` (failed) if it does not come further.
 */
export const wholeReport = async (cli: Cli, gateway: GatewayClient, query: object): Promise<ShownReport> => {
  const progress = progressOf(cli)
  const read = (after?: string) => gateway.read(USAGE_REPORT, USAGE + queryOf({ ...query, after }))
  let whole = await read()
  for (let still = 0; whole.searched_until !== null; ) {
    progress.show(`Added up back to ${whole.searched_until.slice(0, 16).replace('T', ' ')} UTC …`)
    const next = await read(whole.next ?? undefined)
    still = next.searched_until === whole.searched_until ? still + 1 : 0
    whole = next
    if (still < MAX_STILL) continue
    progress.clear()
    throw new CliError(EXIT.failed, `The gateway did not add up usage before ${whole.searched_until}. Try again.`)
  }
  progress.clear()
  for (let page = 1; whole.next !== null && page < MAX_PAGES; page++) {
    const { data, names, has_more, next } = await read(whole.next)
    whole = { ...whole, data: [...whole.data, ...data], names: { ...whole.names, ...names }, has_more, next }
  }
  return whole
}

/** A line that is written over itself. Nothing where the notes go to no terminal. */
const progressOf = ({ host: { stderr }, options }: Cli) => {
  const isShown = stderr.isTTY === true && !options.quiet
  let hasLine = false
  const write = (text: string) => {
    if (isShown) stderr.write(`\r\u001b[K${text}`)
  }
  return {
    show(line: string) {
      hasLine = true
      write(line)
    },
    clear() {
      if (hasLine) write('')
    },
  }
}
