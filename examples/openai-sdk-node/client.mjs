import OpenAI from 'openai'

const url = process.env.HEADGATE_URL ?? 'http://127.0.0.1:3000'
const client = new OpenAI({ baseURL: `${url}/v1`, apiKey: process.env.HEADGATE_API_KEY ?? 'any' })
const model = 'openai/gpt-5-mini'
const messages = [{ role: 'user', content: 'hello' }]

const answer = await client.chat.completions.create({ model, messages })
console.log(answer.choices[0].message.content)

let streamed = ''
for await (const event of await client.chat.completions.create({ model, messages, stream: true }))
  streamed += event.choices[0]?.delta.content ?? ''
console.log(streamed)

const response = await client.responses.create({ model, input: 'hello' })
console.log(response.output_text)
