-- sales_by_country
SELECT i.BillingCountry, count(*), round(sum(l.UnitPrice * l.Quantity), 2) FROM Invoice i JOIN InvoiceLine l ON l.InvoiceId = i.InvoiceId GROUP BY i.BillingCountry ORDER BY 3 DESC, 1;
-- genre_sales
SELECT g.Name, sum(l.Quantity), count(DISTINCT i.CustomerId) FROM InvoiceLine l JOIN Track t ON t.TrackId = l.TrackId JOIN Genre g ON g.GenreId = t.GenreId JOIN Invoice i ON i.InvoiceId = l.InvoiceId GROUP BY g.GenreId ORDER BY 2 DESC, 1;
-- artist_sales
SELECT ar.Name, count(*) FROM InvoiceLine l JOIN Track t ON t.TrackId = l.TrackId JOIN Album al ON al.AlbumId = t.AlbumId JOIN Artist ar ON ar.ArtistId = al.ArtistId GROUP BY ar.ArtistId ORDER BY 2 DESC, 1 LIMIT 20;
-- eight_tables
SELECT e.LastName, g.Name, count(*) FROM Employee e JOIN Customer c ON c.SupportRepId = e.EmployeeId JOIN Invoice i ON i.CustomerId = c.CustomerId JOIN InvoiceLine l ON l.InvoiceId = i.InvoiceId JOIN Track t ON t.TrackId = l.TrackId JOIN Genre g ON g.GenreId = t.GenreId JOIN Album al ON al.AlbumId = t.AlbumId JOIN Artist ar ON ar.ArtistId = al.ArtistId WHERE ar.Name LIKE 'A%' GROUP BY 1, 2 ORDER BY 1, 3 DESC, 2;
-- playlist_tracks
SELECT p.Name, count(*), sum(t.Milliseconds) / 60000 FROM Playlist p JOIN PlaylistTrack pt ON pt.PlaylistId = p.PlaylistId JOIN Track t ON t.TrackId = pt.TrackId GROUP BY p.PlaylistId ORDER BY 2 DESC, p.PlaylistId;
-- never_sold
SELECT count(*), sum(t.Milliseconds) FROM Track t WHERE NOT EXISTS (SELECT 1 FROM InvoiceLine l WHERE l.TrackId = t.TrackId);
-- longest_per_album
SELECT al.Title, t.Name, t.Milliseconds FROM Track t JOIN Album al ON al.AlbumId = t.AlbumId WHERE t.Milliseconds = (SELECT max(u.Milliseconds) FROM Track u WHERE u.AlbumId = t.AlbumId) ORDER BY 3 DESC, 1, 2 LIMIT 50;
-- above_average_customers
SELECT c.LastName, sum(i.Total) s FROM Customer c JOIN Invoice i ON i.CustomerId = c.CustomerId GROUP BY c.CustomerId HAVING s > (SELECT avg(x) FROM (SELECT sum(Total) x FROM Invoice GROUP BY CustomerId)) ORDER BY 2 DESC, 1;
-- rank_in_country
SELECT * FROM (SELECT i.BillingCountry n, c.LastName, round(sum(i.Total), 2), rank() OVER (PARTITION BY i.BillingCountry ORDER BY sum(i.Total) DESC) r FROM Invoice i JOIN Customer c ON c.CustomerId = i.CustomerId GROUP BY i.BillingCountry, c.CustomerId) WHERE r = 1 ORDER BY 1, 2;
-- running_total
SELECT InvoiceId, round(sum(Total) OVER (ORDER BY InvoiceDate, InvoiceId), 2), round(avg(Total) OVER (PARTITION BY CustomerId ORDER BY InvoiceDate ROWS 2 PRECEDING), 4) FROM Invoice ORDER BY 1;
-- days_between_invoices
SELECT CustomerId, max(d) FROM (SELECT CustomerId, julianday(InvoiceDate) - julianday(lag(InvoiceDate) OVER (PARTITION BY CustomerId ORDER BY InvoiceDate)) d FROM Invoice) GROUP BY 1 ORDER BY 1;
-- rock_listeners
SELECT DISTINCT c.Email FROM Customer c WHERE c.CustomerId IN (SELECT i.CustomerId FROM Invoice i JOIN InvoiceLine l ON l.InvoiceId = i.InvoiceId JOIN Track t ON t.TrackId = l.TrackId WHERE t.GenreId IN (SELECT GenreId FROM Genre WHERE Name IN ('Rock', 'Metal'))) ORDER BY 1;
-- media_pivot
SELECT g.Name, sum(CASE m.Name WHEN 'MPEG audio file' THEN 1 ELSE 0 END), sum(m.Name LIKE '%AAC%'), count(*) FILTER (WHERE t.Milliseconds > 300000) FROM Track t JOIN Genre g ON g.GenreId = t.GenreId JOIN MediaType m ON m.MediaTypeId = t.MediaTypeId GROUP BY 1 ORDER BY 1;
-- bosses
WITH RECURSIVE up(id, boss, depth) AS (SELECT EmployeeId, ReportsTo, 0 FROM Employee UNION ALL SELECT up.id, e.ReportsTo, depth + 1 FROM up JOIN Employee e ON e.EmployeeId = up.boss) SELECT id, max(depth) FROM up GROUP BY id ORDER BY id;
-- same_album_pairs
SELECT count(*) FROM InvoiceLine a JOIN InvoiceLine b ON b.InvoiceId = a.InvoiceId AND b.InvoiceLineId > a.InvoiceLineId JOIN Track t ON t.TrackId = a.TrackId JOIN Track u ON u.TrackId = b.TrackId AND u.AlbumId = t.AlbumId;
-- composers
SELECT upper(substr(Composer, 1, 1)), count(*), min(Name) FROM Track WHERE Composer IS NOT NULL AND (Name LIKE '%love%' OR Composer LIKE '%,%' OR UnitPrice > 1) GROUP BY 1 ORDER BY 1;
-- since_a_day
SELECT count(*), sum(Total) FROM Invoice WHERE InvoiceDate >= date('2025-12-31', '-400 days') AND InvoiceDate < datetime('2025-12-31', '-30 days');
-- invoice_before
SELECT count(p), sum(p) FROM (SELECT (SELECT b.Total FROM Invoice b WHERE b.CustomerId = a.CustomerId AND b.InvoiceDate < a.InvoiceDate ORDER BY b.InvoiceDate DESC LIMIT 1) p FROM Invoice a);
-- listed_each
SELECT count(l), sum(length(l)) FROM (SELECT (SELECT group_concat(Name) FROM Playlist WHERE PlaylistId IN (SELECT PlaylistId FROM PlaylistTrack p WHERE p.TrackId = t.TrackId)) l FROM Track t);
-- first_outputs
SELECT t.Name, t.TrackId, (SELECT count(*) FROM InvoiceLine l WHERE l.TrackId = t.TrackId), (SELECT group_concat(Name) FROM Playlist WHERE PlaylistId IN (SELECT PlaylistId FROM PlaylistTrack p WHERE p.TrackId = t.TrackId)) FROM Track t ORDER BY t.Name, t.TrackId LIMIT 20;
-- order_begun
SELECT i.CustomerId, l.InvoiceLineId, l.UnitPrice FROM Invoice i JOIN InvoiceLine l ON l.InvoiceId = i.InvoiceId ORDER BY i.CustomerId DESC, l.UnitPrice DESC, l.InvoiceLineId LIMIT 20;
-- first_groups
SELECT TrackId, sum(Quantity), count(*) FROM InvoiceLine GROUP BY TrackId HAVING count(*) > 1 ORDER BY TrackId LIMIT 10;
