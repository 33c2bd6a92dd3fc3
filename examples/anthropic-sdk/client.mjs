import Anthropic from '@anthropic-ai/sdk'

const url = process.env.HEADGATE_URL ?? 'http://127.0.0.1:3000'
const client = new Anthropic({ baseURL: url, apiKey: process.env.HEADGATE_API_KEY ?? 'any' })
const request = { model: 'openai/gpt-5-mini', max_tokens: 1000, messages: [{ role: 'user', content: 'hello' }] }

const answer = await client.messages.create(request)
console.log(answer.content.map((block) => block.text).join(''))

const stream = client.messages.stream(request)
let streamed = ''
stream.on('text', (text) => {
  streamed += text
})
await stream.finalMessage()
console.log(streamed)
