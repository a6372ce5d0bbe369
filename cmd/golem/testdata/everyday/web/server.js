// A shop with one page: it lists orders and takes new ones.
const http = require('http');
const { Pool } = require('pg');

const db = new Pool();
const escape = text => text.replace(/[&<>"]/g, c => `&#${c.charCodeAt(0)};`);

async function handle(request, response) {
  if (request.method === 'POST') {
    let body = '';
    for await (const part of request) body += part;
    await db.query('insert into orders (item) values ($1)', [new URLSearchParams(body).get('item')]);
    response.writeHead(303, { location: '/' }).end();
    return;
  }
  const { rows } = await db.query('select item from orders order by id');
  response.setHeader('content-type', 'text/html; charset=utf-8');
  response.end(`<!doctype html><title>Shop</title><h1>Orders</h1>
<ul>${rows.map(row => `<li>${escape(row.item)}</li>`).join('')}</ul>
<form method="post"><label>Item <input name="item"></label><button>Order</button></form>`);
}

db.query('create table if not exists orders (id serial primary key, item text not null)').then(() =>
  http.createServer((request, response) => handle(request, response).catch(error => response.writeHead(500).end(String(error)))).listen(3000, '127.0.0.1'));
