-- How stores are cloned on a host: by reflink, in an image, or by a copy; null until its worker has registered since.
alter table host add column clone_mode text;
