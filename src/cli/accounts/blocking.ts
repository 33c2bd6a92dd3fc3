/** The verbs `block` and `unblock`, of keys and of teams. */
import type { Command } from 'commander'
import type { Cli } from '../cli.ts'
import { idOf, RECORDS, withRecords } from './record-store.ts'

/** What may be blocked. `block`, `unblock`: descriptions; `example`: a name. */
type Blockable = {
  readonly kind: 'key' | 'team'
  readonly block: string
  readonly unblock: string
  readonly example: string
}

export const withBlocking = (command: Command, cli: () => Cli, about: Blockable): void => {
  const { kind, example } = about
  for (const action of ['block', 'unblock'] as const)
    command
      .command(`${action} <${kind}>`)
      .description(about[action])
      .addHelpText('after', `\nExample: headgate ${command.name()} ${action} ${example}`)
      .action((name: string) =>
        withRecords(cli(), async (store) => {
          const record = await store.run(RECORDS[kind], { do: action, kind, id: await idOf(store, kind, name) })
          cli().answer(record, () => [`${record.name} is ${record.status}`])
        }),
      )
}
