/** `headgate audit`: checks the chain of the audit log. */
import { number, text } from '../../../core/json.ts'
import { withRecords } from '../accounts/record-store.ts'
import { type DefineVerb, EXIT } from '../cli.ts'

export const define: DefineVerb = (command, cli) => {
  command.addHelpText('after', '\nExample: headgate audit verify')
  command
    .command('verify')
    .description('Check that no entry of the audit log was changed or removed. Exits with 1 if one was.')
    .addHelpText('after', '\nExample: headgate audit verify')
    .action(() =>
      withRecords(cli(), async (store) => {
        const result = await store.run({ do: 'verify' })
        if (result.ok !== true) cli().exit(EXIT.failed)
        cli().answer(result, () => [
          result.ok === true
            ? cli().paint.good(`ok, ${number(result.checked) ?? 0} entries checked`)
            : cli().paint.bad(text(result.problem) ?? 'an entry was changed'),
        ])
      }),
    )
}
