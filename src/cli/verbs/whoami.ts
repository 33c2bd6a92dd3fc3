/** `headgate whoami`: who a gateway takes this user for. */
import { z } from 'zod'
import type { DefineVerb } from '../cli.ts'
import { gatewayOf } from '../gateway-client.ts'

const SESSION = z.looseObject({
  actor: z.looseObject({ kind: z.string(), id: z.string(), name: z.string() }),
  roles: z.array(z.looseObject({ role: z.string(), team: z.string().nullable() })),
  person: z.looseObject({ provider: z.string(), team: z.string().nullable() }).nullable(),
})

export const define: DefineVerb = (command, cli) => {
  command.addHelpText('after', '\nExample: headgate whoami').action(async () => {
    const { answer } = cli()
    const gateway = await gatewayOf(cli())
    const session = await gateway.read(SESSION, '/admin/api/v1/session')
    const { actor, roles, person } = session
    answer({ url: gateway.url, actor, roles, person }, () => [
      `${actor.name} (${actor.kind} ${actor.id}) at ${gateway.url}`,
      roles.length === 0
        ? 'no role'
        : roles.map(({ role, team }) => (team === null ? role : `${role} of ${team}`)).join(', '),
      ...(person === null ? [] : [`pays: ${person.team ?? 'no team'}`]),
    ])
  })
}
